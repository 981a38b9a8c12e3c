"""One line about the guarantee of a pipeline, and how to get a stronger one."""

from __future__ import annotations

from k2k_assets.pipeline import Pipeline


def guarantee(pipeline: Pipeline) -> str:
    """The guarantee of the copy, and the keys that would give a stronger one."""
    features = pipeline.features
    delivery = "exactly once" if features.exactly_once else "at least once (records may come twice after a fault)"
    headers = "with headers" if features.header_replication else "headers are dropped"
    keys = {"exactlyOnce": features.exactly_once, "headerReplication": features.header_replication}
    more = " and ".join(f"features.{key}: enabled" for key, is_on in keys.items() if not is_on)
    return f"{delivery}, {headers}{'; for more, ' + more if more else ''}"
