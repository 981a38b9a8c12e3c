"""The assets of a pipeline; the work is in other rooms."""
