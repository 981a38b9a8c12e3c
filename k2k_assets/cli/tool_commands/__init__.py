"""The commands of `k2k-tool`, a module for each."""
