"""Overrides: positions that somebody sets by hand, recorded in the commit log with who, why, before and after."""
