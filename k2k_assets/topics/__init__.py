"""Topics as a whole: which source topics a pipeline copies, and the target topics that it needs."""
