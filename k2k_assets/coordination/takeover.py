"""Decides when a running instance takes over partitions that others have released, or that are new.

A take-over needs a new generation, which costs every slot a new session. So the instance takes over all free partitions
at once, and leaves to others what they are about to take.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from k2k_assets.coordination.peers import Peers
from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.replication")

# Longest wait for other instances that are releasing one partition after the other, or are about to claim.
OTHERS_SECONDS = 5.0
_LOOK_SECONDS = 0.1


class Takeover:
    """Remembers which partitions others copy, and decides when to take them over.

    Args:
        pipeline: Says how often instances look for new partitions (`sync.metadataInterval`).
        peers: The other instances.
        clock: Seconds that only rise.

    Attributes:
        waited_for: Partitions that others copy, or have copied.
    """

    def __init__(self, pipeline: Pipeline, peers: Peers, clock: Callable[[], float] = time.monotonic) -> None:
        self.waited_for: set[TopicPartition] = set()
        self._peers = peers
        self._clock = clock
        self._until_others_look = pipeline.sync.metadata_interval.total_seconds() + OTHERS_SECONDS
        self._mine: frozenset[TopicPartition] = frozenset()
        self._new: dict[TopicPartition, float] = {}
        self._free_since: float | None = None
        self._standing_by = ""

    def take(self, partitions: Mapping[TopicPartition, str]) -> dict[TopicPartition, str]:
        """Makes all partitions that no other instance copies the own ones; returns the rest, each with its instance.

        Args:
            partitions: Source topic id of each partition.
        """
        elsewhere = self._peers.elsewhere(partitions, self._mine)
        self.waited_for = set(elsewhere)
        self._mine = frozenset(partitions.keys() - elsewhere.keys())
        self._new = {}
        self._free_since = None
        return elsewhere

    def copies_still(self, partitions: Mapping[TopicPartition, str]) -> bool:
        """Whether at least one own partition was not taken over by others since.

        Args:
            partitions: Source topic id of each partition.
        """
        try:
            self._peers.catch_up()
        except K2KError as error:
            log.debug("what other instances have taken is not known: %s", error)
            return True
        return bool(self._mine - self._peers.elsewhere(partitions, self._mine).keys())

    def appeared(self, partitions: Iterable[TopicPartition]) -> None:
        """Notes new partitions while this instance has nothing to copy: instances that copy may take them first."""
        self._new = dict.fromkeys(partitions, self._clock() + self._until_others_look)
        self.waited_for |= self._new.keys()

    def refresh(
        self, partitions: Mapping[TopicPartition, str], stopped: Callable[[], Collection[TopicPartition]] = tuple
    ) -> bool:
        """Whether it is time to take over free partitions.

        Args:
            partitions: Source topic id of each partition.
            stopped: Returns the partitions that would stop again; an instance that took them would release them at
                once, and so invite the next one.

        Raises:
            K2KError: The assignment topic cannot be read.
        """
        self._peers.refresh()
        free = self._free(partitions, stopped)
        if free:
            self._peers.catch_up()  # `refresh` may have seen only a part of what another instance wrote at once
            free = self._free(partitions, stopped)
        if not free:
            self._free_since = None
            return False
        if self._others_come_first():
            return False
        log.info("free again: %s", ", ".join(sorted(map(str, free))))
        return True

    def await_others(self, stop: threading.Event) -> None:
        """Waits, for a while at most, until no other instance is releasing or claiming partitions one by one.

        Args:
            stop: Ends the wait.
        """
        until = self._clock() + OTHERS_SECONDS
        while self._clock() < until:
            try:
                self._peers.refresh()
            except K2KError as error:
                log.debug("whether other instances are about to change is not known: %s", error)
                return
            if not self._peers.changing or stop.wait(_LOOK_SECONDS):
                return

    def _free(
        self, partitions: Mapping[TopicPartition, str], stopped: Callable[[], Collection[TopicPartition]]
    ) -> set[TopicPartition]:
        elsewhere = self._peers.elsewhere(partitions, self._mine)
        self._new = {tp: until for tp, until in self._new.items() if tp not in elsewhere}
        # Others have claimed these since, so the own slots have left them to the others, who may be gone again by now.
        self.waited_for |= self._peers.claimed_since(partitions) | elsewhere.keys()
        self._say(elsewhere, len(partitions))
        free = (self.waited_for & partitions.keys()) - elsewhere.keys() - self._for_others(elsewhere)
        return free.difference(stopped()) if free else free

    def _for_others(self, elsewhere: Collection[TopicPartition]) -> set[TopicPartition]:
        return {tp for tp, until in self._new.items() if elsewhere and self._clock() < until}

    def _others_come_first(self) -> bool:
        """Whether to wait until others have released or claimed everything.

        Taking partitions one by one would cost a generation for each slot that ends, in each instance that stands by.
        """
        if not self._peers.changing:
            return False
        now = self._clock()
        self._free_since = now if self._free_since is None else self._free_since
        return now - self._free_since < OTHERS_SECONDS

    def _say(self, elsewhere: Mapping[TopicPartition, str], of: int) -> None:
        # The text has the count: an instance claims slot by slot, and the first read may see only some of its claims.
        count, owners = len(elsewhere), ", ".join(sorted(set(elsewhere.values())))
        words = (
            f"{count} of {plural(of, 'partition, which is', 'partitions, which are')} copied by {owners}"
            if count
            else ""
        )
        if words != self._standing_by:
            self._standing_by = words
            if words:
                log.info("standing by for %s", words)
