"""Settings of other replicators, made into pipeline files. Pure: reads and writes no file, and asks no cluster."""
