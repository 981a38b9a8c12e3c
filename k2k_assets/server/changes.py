"""Sets positions in two steps: a plan that changes nothing, and exactly that plan, confirmed."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, model_validator

from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.overrides.apply import override, rehearse
from k2k_assets.overrides.decide import Override
from k2k_assets.overrides.pausing import pause_topics, resume_topics
from k2k_assets.overrides.request import Request, Wanted, from_log_start
from k2k_assets.pipeline import Pipeline
from k2k_assets.topics.selection import resolve_topics


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class PositionsBody(_Body):
    """Positions to be set: without `plan` nothing is changed, and the answer has one."""

    offsets: list[str] = Field(default=[], description="As -o of k2k-tool set: TOPIC:PARTITION:OFFSET.")
    reset: bool = Field(default=False, description="All positions to the log start, instead of `offsets`.")
    acceptNewTopic: bool = Field(default=False, description="As --accept-new-topic.")  # noqa: N815 - JSON's spelling
    acceptForeignRecords: bool = Field(default=False, description="As --accept-foreign-records.")  # noqa: N815
    force: bool = Field(default=False, description="As --force: an instance that copies is fenced.")
    reason: str | None = Field(default=None, description="Reason, for the commit log.")
    plan: str | None = Field(default=None, description="The plan that is confirmed.")

    @model_validator(mode="after")
    def _one_of_both(self) -> PositionsBody:
        if self.reset == bool(self.offsets):
            raise ValueError("say either which offsets, or reset: true")
        for text in self.offsets:
            Wanted.parse(text)
        return self


class TopicsBody(_Body):
    """Source topics to be paused or resumed."""

    topics: list[str] = Field(min_length=1)
    reason: str | None = Field(default=None, description="Why, for whoever asks later.")


@dataclass(frozen=True)
class Planned:
    """The changes of a request.

    Attributes:
        plan: Names exactly these changes.
        decided: The changes.
        applied: Whether they are done.
    """

    plan: str
    decided: list[Override]
    applied: bool


class Changing:
    """Changes pipelines, each by one request at a time.

    Args:
        by: Who is noted in the commit log.
    """

    def __init__(self, by: str) -> None:
        self._by = by
        self._locks: defaultdict[tuple[str, str], threading.Lock] = defaultdict(threading.Lock)

    def positions(self, pipeline: Pipeline, body: PositionsBody) -> Planned:
        """Plans, and carries out if the body confirms what is still the plan.

        Returns:
            The changes. Not applied although confirmed: they are others by now.

        Raises:
            Refused: The request is not possible; nothing was changed.
            Superseded: Another instance started meanwhile; nothing was changed.
            ClusterUnreachable: A cluster does not answer.
        """
        with self._locks[pipeline.name, pipeline.group], both_clusters(pipeline) as (source, target):
            request = self._request(pipeline, source, body)
            decided = rehearse(pipeline, source, target, request)
            plan = plan_of(pipeline, decided, body)
            if body.plan != plan:
                return Planned(plan, decided, applied=False)
            return Planned(plan, override(pipeline, source, target, request, force=body.force), applied=True)

    def pause(self, pipeline: Pipeline, body: TopicsBody) -> None:
        """Pauses topics.

        Raises:
            Refused: A topic is not selected; nothing was changed.
            ClusterUnreachable: A cluster does not answer.
        """
        with self._locks[pipeline.name, pipeline.group], both_clusters(pipeline) as (source, target):
            pause_topics(pipeline, source, target, body.topics, self._by, body.reason)

    def resume(self, pipeline: Pipeline, body: TopicsBody) -> None:
        """Resumes topics.

        Raises:
            Refused: A topic is not paused; nothing was changed.
            ClusterUnreachable: The target does not answer.
        """
        with self._locks[pipeline.name, pipeline.group], both_clusters(pipeline) as (_, target):
            resume_topics(pipeline, target, body.topics)

    def _request(self, pipeline: Pipeline, source: Cluster, body: PositionsBody) -> Request:
        if body.reset:
            wanted = from_log_start(resolve_topics(pipeline, source))
        else:
            wanted = tuple(map(Wanted.parse, body.offsets))
        return Request(wanted, self._by, body.reason, body.acceptNewTopic, body.acceptForeignRecords)


def plan_of(pipeline: Pipeline, decided: Sequence[Override], body: PositionsBody) -> str:
    """Names a plan: what was asked for, of which partitions of which pipeline, from where, and what it leaves out.

    `latest` and `earliest` stay what they are while the source is written and deletes. With `force` the copy may still
    move on, so where it stood before does not count.

    Args:
        pipeline: The pipeline.
        decided: The changes.
        body: The request.
    """
    whose = [pipeline.name, pipeline.group]
    rows = []
    for one in decided:
        before, lost = None if body.force else one.before, (one.facts.lost_from, one.facts.cut_off)
        rows.append([str(one.facts.source), list(one.accepted), one.stays, before, lost])
    text = json.dumps([whose, rows, body.model_dump(exclude={"plan"})], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
