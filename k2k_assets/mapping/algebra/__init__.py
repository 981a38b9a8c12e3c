"""The algebra of mappings: runs, coverage, maps and translations of offsets. Pure: no client, no Spark, no clock."""
