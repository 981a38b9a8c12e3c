"""Which guarantee a pipeline has, and how to get more, in one line."""

from __future__ import annotations

from k2k_assets.pipeline import Pipeline


def guarantee(pipeline: Pipeline) -> str:
    """What a copy may rely on, and the keys that give more than that."""
    features = pipeline.features
    delivery = "exactly once" if features.exactly_once else "at least once (records may come twice after a fault)"
    headers = "with headers" if features.header_replication else "headers are dropped"
    keys = {"exactlyOnce": features.exactly_once, "headerReplication": features.header_replication}
    more = " and ".join(f"features.{key}: enabled" for key, is_on in keys.items() if not is_on)
    return f"{delivery}, {headers}{'; for more, ' + more if more else ''}"
