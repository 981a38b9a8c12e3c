"""Which source offset became which target offset: the runs, the records that carry them, the index."""
