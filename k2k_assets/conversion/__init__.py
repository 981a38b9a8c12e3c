"""Converts settings of other replicators into pipeline files. Pure: no files, no clusters."""
