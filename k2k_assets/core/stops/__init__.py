"""Why a partition or a topic was stopped, as values: `reasons.py` is the list of all reasons."""
