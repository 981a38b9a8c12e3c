"""The replicated topics and their sources: the assets, the runs that copy them, and what is reported of them."""
