"""Why a partition or a topic was stopped, as values: `reasons/` holds all kinds, `catalog.py` lists them."""
