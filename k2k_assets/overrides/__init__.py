"""Overrides: positions that a user sets by hand. The commit log records who, why, and the state before and after."""
