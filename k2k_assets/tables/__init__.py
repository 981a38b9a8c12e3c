"""Tables for notebooks and queries: the commit log and the consumer groups as Spark DataFrames, and as Parquet.

The Parquet files lie beside the index of offset mappings, a folder for each table.
"""
