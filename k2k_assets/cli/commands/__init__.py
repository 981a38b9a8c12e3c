"""The commands of `k2k`, a module for each, and what they show."""
