"""How far a copy is: lag in offsets and in seconds, rates, what is stopped. Reads clusters and commit log, only."""
