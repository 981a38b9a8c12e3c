"""The control topics on the target: their records, their settings, and what each of them says."""
