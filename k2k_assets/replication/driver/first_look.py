"""The first look at both clusters: resolves the topics and checks the permissions. It creates nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from k2k_assets.core.errors import K2KError
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.permissions.missing import refuse
from k2k_assets.permissions.topic_check import TopicCheck
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.rule_patterns import rules_for_nothing
from k2k_assets.replication.plan import is_one_to_one
from k2k_assets.topics.selection import ensure_selected, resolve_topics

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class FirstLook:
    """The clusters' answers, and the clients for all later calls.

    Attributes:
        source: The source cluster.
        target: The target cluster.
        source_id: Id of the source cluster.
        target_id: Id of the target cluster.
        topics: Source topics to copy, with their partition counts.
        targets: Target topic of each source topic.
        one_to_one: Whether one source partition, of all that the pipeline selects, feeds each target partition.
        permissions: The checked permissions, which include the missing target topics.
        doubt: Rules that are for none of the selected topics, in one line; empty if there are none.
    """

    source: Cluster
    target: Cluster
    source_id: str
    target_id: str
    topics: dict[str, int]
    targets: dict[str, str]
    one_to_one: bool
    permissions: TopicCheck
    doubt: str


def look_at_clusters(
    pipeline: Pipeline, source: Cluster, target: Cluster, only: Collection[str] | None = None
) -> FirstLook:
    """Resolves the topics and checks the permissions.

    Args:
        pipeline: The pipeline.
        source: Source cluster.
        target: Target cluster.
        only: Only these source topics; then other listed topics need not exist.

    Raises:
        Refused: A topic does not exist, none is selected, or a permission is missing.
        ClusterUnreachable: A cluster does not answer; if neither does, the error names both.
    """
    selected, target_id = _both(
        partial(resolve_topics, pipeline, source, partly=only is not None), target.cluster_id
    )  # fmt: skip
    one_to_one = is_one_to_one(pipeline, pipeline.selection.literal or selected)  # what is gone may come back
    doubt = rules_for_nothing(pipeline, selected)
    if only is not None:
        ensure_selected(pipeline, source, only, selected)
        selected = {topic: count for topic, count in selected.items() if topic in only}
    targets = {topic: pipeline.routing.target_topic(topic) for topic in selected}
    permissions = TopicCheck(pipeline, source, target, "replication", selected, targets.values())
    refuse(permissions.before_creation())
    target.end_apart()  # the copy needs no calls about groups
    return FirstLook(source, target, source.cluster_id(), target_id, selected, targets, one_to_one, permissions, doubt)


def _both(first: Callable[[], T], second: Callable[[], U]) -> tuple[T, U]:
    """Asks both clusters at once: if neither answers, that takes one time-out, and one error names both."""
    with ThreadPoolExecutor(2, "k2k-look") as pool:
        asked, also_asked = pool.submit(first), pool.submit(second)
    if failed := [error for future in (asked, also_asked) if (error := future.exception()) is not None]:
        if len(failed) == 2 and isinstance(failed[0], K2KError) and isinstance(failed[1], K2KError):
            raise type(failed[0])(f"{failed[0]} {failed[1]}")
        raise failed[0]
    return asked.result(), also_asked.result()
