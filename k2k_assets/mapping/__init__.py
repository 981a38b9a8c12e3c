"""Maps source offsets to target offsets: the runs, the records that carry the runs, the index."""
