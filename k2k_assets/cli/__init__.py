"""The command line: `k2k`. Each command has a file of its own; none holds logic of the engine."""
