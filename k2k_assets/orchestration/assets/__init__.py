"""The assets of a pipeline, thin."""
