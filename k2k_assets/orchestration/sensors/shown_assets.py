"""Compares the loaded definitions with the discovery, and reloads them if they lack something."""

from __future__ import annotations

import dagster as dg

from k2k_assets.core.digest import digest
from k2k_assets.discovery import Discovery
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.sensors.asked_reloads import AskedReloads
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
    before: AskedReloads,
    now: float,
) -> AskedReloads:
    """Reloads the definitions if they lack discovered topics or groups.

    Args:
        context: Context of the tick.
        names: The pipeline's names.
        found: The discovery.
        shown: Assets of the loaded definitions.
        before: The result of the last tick.
        now: Seconds since the epoch.

    Returns:
        What the next tick has to know.
    """
    keys = {names.topic_key(topic) for topic in found.topics}
    keys |= {names.consumer_group_key(group) for group in found.groups}
    new = sorted(key.to_user_string() for key in keys - shown)
    reloads = before.after_look(digest("\n".join(new)) if new else "", now)
    if reloads.asked and reloads != before and context.code_location_origin is not None:
        reload_soon(context.code_location_origin.location_name)
    return reloads
