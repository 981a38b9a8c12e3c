"""What the loaded definitions show of a pipeline, and having them loaded anew when more is discovered."""

from __future__ import annotations

import dagster as dg

from k2k_assets.core.digest import digest
from k2k_assets.discovery import Discovery
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.sensors.reloading import reload_soon


def shown_assets(context: dg.SensorEvaluationContext, names: AssetNames) -> frozenset[dg.AssetKey]:
    """The assets of the pipeline that the loaded definitions can materialize."""
    definition = context.repository_def
    graph = definition.asset_graph if definition else None
    if graph is None:
        return frozenset()
    return frozenset(key for key in graph.materializable_asset_keys if key.path[0] == names.commit_log_key.path[0])


def show_anew(
    context: dg.SensorEvaluationContext,
    names: AssetNames,
    found: Discovery,
    shown: frozenset[dg.AssetKey],
    not_shown: str,
) -> str:
    """Has the definitions loaded anew, once, when something is discovered that they do not show.

    Args:
        context: Of the tick.
        names: Of the pipeline.
        found: What is discovered.
        shown: What the definitions show.
        not_shown: What this has returned at the last tick.

    Returns:
        What stands for that which is not shown; empty if all is.
    """
    keys = {names.topic_key(topic) for topic in found.topics}
    keys |= {names.consumer_group_key(group) for group in found.groups}
    new = sorted(key.to_user_string() for key in keys - shown)
    stands_for = digest("\n".join(new)) if new else ""
    if new and stands_for != not_shown and context.code_location_origin is not None:
        reload_soon(context.code_location_origin.location_name)
    return stands_for
