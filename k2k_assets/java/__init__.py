"""Finds the Java of this machine, and keeps archives of its classes. Spark and the sandbox start Java processes."""
