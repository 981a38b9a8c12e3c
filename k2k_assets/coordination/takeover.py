"""What an instance that goes on may take up: partitions that others have let go of, and those that are new.

Whatever it does about them begins with a new generation, which costs every slot a new session. So it takes all at once,
and leaves to others what they are about to take.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from k2k_assets.coordination.peers import Peers
from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.replication")

# So long others are waited for that let go of one partition after the other, or are about to claim.
OTHERS_SECONDS = 5.0


class Takeover:
    """Knows what was left to others, and when it is to be taken up.

    Args:
        pipeline: How often instances look for what is new.
        peers: Other instances.
        clock: Seconds that only rise.

    Attributes:
        waited_for: Partitions that others have, or had.
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
        """All that nobody newer copies is to be copied now.

        Args:
            partitions: Source topic id of each partition.

        Returns:
            The others, each with who copies it.
        """
        elsewhere = self._peers.elsewhere(partitions, self._mine)
        self.waited_for = set(elsewhere)
        self._mine = frozenset(partitions.keys() - elsewhere.keys())
        self._new = {}
        self._free_since = None
        return elsewhere

    def copies_still(self, partitions: Mapping[TopicPartition, str]) -> bool:
        """Whether anything that is to be copied now was not taken by others since, even if the slots still end.

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
        """New ones, while this instance has nothing to copy: they are for those that have, if there are any."""
        self._new = dict.fromkeys(partitions, self._clock() + self._until_others_look)
        self.waited_for |= self._new.keys()

    def refresh(
        self, partitions: Mapping[TopicPartition, str], stopped: Callable[[], Collection[TopicPartition]] = tuple
    ) -> bool:
        """Whether it is time to take something up.

        Args:
            partitions: Source topic id of each partition.
            stopped: Those that would stop again: whoever takes them lets go of them at once, and invites the next one.

        Raises:
            K2KError: What others do cannot be read.
        """
        self._peers.refresh()
        free = self._free(partitions, stopped)
        if free:
            self._peers.catch_up()  # a look may see a part of what somebody has written at once
            free = self._free(partitions, stopped)
        if not free:
            self._free_since = None
            return False
        if self._others_come_first():
            return False
        log.info("free again: %s", ", ".join(sorted(map(str, free))))
        return True

    def _free(
        self, partitions: Mapping[TopicPartition, str], stopped: Callable[[], Collection[TopicPartition]]
    ) -> set[TopicPartition]:
        elsewhere = self._peers.elsewhere(partitions, self._mine)
        self._new = {tp: until for tp, until in self._new.items() if tp not in elsewhere}
        # A slot has left these to others, even if all that is to be seen now is that they have gone again.
        self.waited_for |= self._peers.claimed_since(partitions) | elsewhere.keys()
        self._say(elsewhere, len(partitions))
        free = (self.waited_for & partitions.keys()) - elsewhere.keys() - self._for_others(elsewhere)
        return free.difference(stopped()) if free else free

    def _for_others(self, elsewhere: Collection[TopicPartition]) -> set[TopicPartition]:
        return {tp for tp, until in self._new.items() if elsewhere and self._clock() < until}

    def _others_come_first(self) -> bool:
        """One by one would mean a generation for each slot that ends, here and wherever else somebody stands by."""
        if not self._peers.changing:
            return False
        now = self._clock()
        self._free_since = now if self._free_since is None else self._free_since
        return now - self._free_since < OTHERS_SECONDS

    def _say(self, elsewhere: Mapping[TopicPartition, str], of: int) -> None:
        # With the count: whoever takes over claims slot by slot, and the first look may see a part of it.
        count, owners = len(elsewhere), ", ".join(sorted(set(elsewhere.values())))
        words = f"{count} of {of} partitions, which are copied by {owners}" if count else ""
        if words != self._standing_by:
            self._standing_by = words
            if words:
                log.info("standing by for %s", words)
