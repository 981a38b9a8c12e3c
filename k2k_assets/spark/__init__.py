"""Spark: sessions, its Java process, and the code for its workers. Imports nothing: the workers' daemon starts here."""
