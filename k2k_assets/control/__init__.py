"""The control topics on the target: their records, their settings, and one fold of each topic's records."""
