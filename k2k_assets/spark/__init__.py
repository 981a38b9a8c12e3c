"""Spark: sessions, its Java, what it ships to its workers. Imports nothing: the daemon of the workers begins here."""
