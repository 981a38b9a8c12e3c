"""The command line: `k2k`. Each command has its own file; the engine's logic is elsewhere."""
