"""Puts right what `topics.plan` has found. Whatever is done already is no harm: it may be called again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from k2k_assets.core.errors import Refusals
from k2k_assets.kafka.acls import create_topic_acls
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.topic_configs import alter_topic_configs
from k2k_assets.topics.create import create_topics, grow_topics
from k2k_assets.topics.differences import Kind
from k2k_assets.topics.plan import TopicsPlan

if TYPE_CHECKING:
    from k2k_assets.pipeline import Pipeline


def apply_plan(pipeline: Pipeline, target: Cluster, plan: TopicsPlan, allowed: Collection[Kind]) -> None:
    """Creates topics, changes configs, adds partitions, and creates ACLs.

    Args:
        pipeline: Says how long new topics are waited for.
        target: The target cluster.
        plan: What differs.
        allowed: Kinds of differences that are put right beside missing topics and configs of the source.

    Raises:
        Refused: The target refuses some of it; all else is done.
        ClusterUnreachable: The target does not answer.
    """
    todo = plan.to_do(allowed)
    missing = [plan.wanted[each.topic].topic for each in todo if each.kind == "missing"]
    configs: dict[str, dict[str, str | None]] = defaultdict(dict)
    for each in todo:
        if each.kind in ("config", "only on the target", "min.insync.replicas"):
            configs[each.topic][each.what] = each.wanted
    wider = {each.topic: int(each.wanted or 0) for each in todo if each.kind == "partitions"}
    steps: tuple[Callable[[], object], ...] = (
        lambda: create_topics(pipeline, target, missing),
        lambda: alter_topic_configs(target, configs),
        lambda: grow_topics(pipeline, target, wider),
        lambda: create_topic_acls(target, plan.acls),
    )
    refusals = Refusals()
    for step in steps:
        with refusals.collected():
            step()
    refusals.raise_all()
