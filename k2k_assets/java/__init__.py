"""The Java on this machine, and archives of its classes: Spark and the sandbox both start one."""
