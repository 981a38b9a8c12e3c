"""Topics as a whole: which ones are copied, and that those on the target exist."""
