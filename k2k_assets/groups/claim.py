"""The claims of mappers in the assignment topic: of two mappers of one pipeline, the one with the later claim wins.

The offset of its claim gives a mapper its generation. A mapper writes its claim before it fences the transactional ids
of earlier mappers, so a fenced mapper finds a later claim than its own; if it finds none, it was not superseded.
"""

from __future__ import annotations

import logging
import time

from k2k_assets.control.assignment_records import PARTITION
from k2k_assets.control.assignment_writing import write_record
from k2k_assets.control.mapper_claims import ClaimedMappers, MapperClaim, MapperHeartbeat
from k2k_assets.core.any_group import ANY_GROUP
from k2k_assets.core.errors import Refused, Superseded
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.messages import Message
from k2k_assets.kafka.topic_follower import Replaced, TopicFollower
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.groups")

_FORGOTTEN_AFTER_SECONDS = 3600.0


class MapperClaims:
    """Writes the claim of one mapper, and follows the claims of others. Only one thread at a time may use it.

    Args:
        pipeline: The pipeline, which names the topic.
        target: The target cluster.
        timeout: Give up reading after so many seconds without a record.

    Raises:
        Refused: The assignment topic does not exist.
        ClusterUnreachable: The target does not answer.
    """

    def __init__(self, pipeline: Pipeline, target: Cluster, timeout: float = 30.0) -> None:
        self._pipeline = pipeline
        self._target = target
        self._timeout = timeout
        self._topic = pipeline.coordination.assignment.topic
        self._mappers = ClaimedMappers(pipeline.name)
        self._own: MapperClaim | None = None
        self._unreadable: Refused | None = None
        self._offset = -1
        found = target.describe([self._topic]).get(self._topic)
        if found is None:
            raise Refused(
                f"the assignment topic '{self._topic}' does not exist on the {target}. Create it (see "
                "docs/control-topics.md), or set 'features.autoCreateControlTopics: enabled'"
            )
        # Read uncommitted: claims are written outside transactions, and an open one of others must not hide them.
        properties = pipeline.client_properties("target", "consumer")
        self._follower = TopicFollower(found, target, properties, committed_only=False, only=[PARTITION])
        self._follower.take_lost()  # records that were deleted before now are no loss: nothing was read yet

    def write(self) -> int:
        """Writes the own claim; returns its offset."""
        self._own = MapperClaim.new(self._pipeline.name, self._pipeline.group)
        self._offset = write_record(self._pipeline, self._own.key_bytes(), self._own.value_bytes())
        return self._offset

    def ensure_newest(self) -> None:
        """Looks for later claims.

        Raises:
            Superseded: There is a later claim.
            ClusterUnreachable: The topic was not read to its end.
            Refused: The topic was deleted or created anew since.
        """
        self._catch_up()
        claims = self._claims
        newest = max(claims, default=-1)
        if newest > self._offset:
            other = claims[newest]
            raise Superseded(
                f"a newer offset mapper of pipeline {other.pipeline} has taken over: process {other.pid} on "
                f"{other.host} (claim {newest}, this one is {self._offset}). Nothing was committed since"
            )

    def rivals(self) -> set[str | None]:
        """The `group.id`s under whose transactional ids earlier mappers of the same groups may still commit.

        Call it after `write`. None among them stands for the ids of older releases; it is included until a mapper of
        this release has claimed before.

        Raises:
            ClusterUnreachable: The topic was not read to its end.
        """
        self._catch_up()
        before: set[str | None] = {claim.group for offset, claim in self._claims.items() if offset < self._offset}
        own = self._pipeline.group
        return before - {own} if own in before else {*before, None}

    def forget_older(self) -> None:
        """Removes the claims of fenced mappers, and the heartbeats of mappers that ended long ago."""
        for offset, claim in self._claims.items():
            if offset < self._offset:
                write_record(self._pipeline, claim.key_bytes(), None)
        # Other machines' clocks are good enough here: this only tidies up, and fences nobody.
        before = (time.time() - _FORGOTTEN_AFTER_SECONDS) * 1000
        for heartbeat in self._mappers.heartbeats.values():
            if heartbeat.time < before:
                write_record(self._pipeline, heartbeat.key_bytes(), None)

    def heartbeats(self) -> dict[int, MapperHeartbeat]:
        """The last heartbeats of mappers that may commit for the same groups, by offset; dead mappers are included.

        Raises:
            ClusterUnreachable: The topic was not read to its end.
            Refused: The topic was deleted or created anew since, or holds a record that cannot be read.
        """
        self._catch_up()
        own, found = self._pipeline.group, self._mappers.heartbeats
        return {offset: heartbeat for offset, heartbeat in found.items() if _moves_groups_of(heartbeat, own)}

    def close(self) -> None:
        """Closes the client."""
        self._follower.close()

    def __enter__(self) -> MapperClaims:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _claims(self) -> dict[int, MapperClaim]:
        """The claims of mappers that may commit for the same groups, by offset."""
        own = self._pipeline.group
        return {offset: claim for offset, claim in self._mappers.claims.items() if _moves_groups_of(claim, own)}

    def _catch_up(self) -> None:
        if self._unreadable:
            raise self._unreadable  # the unreadable record may be the claim of a newer mapper of a newer release
        for batch in self._follower.catch_up(self._timeout):
            for message in batch:
                self._take(message)
        if self._follower.take_lost():
            self._unreadable = Replaced(
                f"records of the assignment topic {self._topic} on the {self._target} were deleted before they were "
                "read: claims of newer mappers may be among them. Start again"
            )
            raise self._unreadable

    def _take(self, message: Message) -> None:
        where = f"{self._topic}-{PARTITION}@{message.offset()}"
        try:
            self._mappers.apply(message.offset(), message.key(), message.value(), where)
        except ValueError as error:
            said = f"{self._topic} on the {self._target} cannot be read: {where}: {error}"
            if self._pipeline.error_handling.on_control_message_deserialization_error == "ignore":
                log.warning("control record ignored: %s", said)
                return
            self._unreadable = Refused(said)
            raise self._unreadable from None


def _moves_groups_of(claim: MapperClaim | MapperHeartbeat, group: str) -> bool:
    """Whether the record's mapper may commit for the same consumer groups as a mapper with this `group.id`."""
    return claim.group is None or ANY_GROUP in (claim.group, group) or claim.group == group
