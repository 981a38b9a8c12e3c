"""The kinds of stop reasons, a file for each thing that can stop a partition or a topic."""
