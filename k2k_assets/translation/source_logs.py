"""Finds up to where the logs of the source are still those that were copied.

```
 copied           0 ... 39  40 ... 99          the newest commit record: position 100, leader epoch 0
 source, today    0 ... 39  40 ... 139         40 to 99 were lost in an unclean election; others were written since
```

The offsets tell nothing of it; leader epochs do (KIP-320). As long as the epoch at the end of a log is that of the last
record that was copied, the log has had no other leader, and nothing is asked. After an election the source's client
asks the leader where that epoch ends in its log: once, however far the copy has to go in that epoch.

A copy that meets a cut-off stops, and writes that down. Its stop tells of it where nobody can be asked: the partition
has no leader, or the source is gone.

Once a log was cut off, what a group has read is judged likewise, by the leader epoch of its own commit: a position set
by hand, and what is copied from there on, say nothing of what was read before. All groups that stand in one epoch of
such a partition cost one question, and none as long as the epoch is that of today. Elsewhere a group's epoch is not
looked at: some clients (Sarama for Go) commit one that is long past.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import NamedTuple, Protocol

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import K2KError
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.stops.reasons.permissions import SourceReadDenied
from k2k_assets.core.stops.reasons.records import BatchUnreadable
from k2k_assets.core.stops.reasons.source_log import RecordsDeleted, SourceDiverged
from k2k_assets.core.topic_partition import BEYOND_ALL_LOGS, TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.groups import CommittedOffset, GroupOffsets
from k2k_assets.pipeline import Pipeline
from k2k_assets.translation.log_ends import NOT_KNOWN, is_of_former_log
from k2k_assets.transport.errors import Restart, SourceStopped
from k2k_assets.transport.factory import records_transport_of
from k2k_assets.transport.interface import Position

log = logging.getLogger("k2k.mapping")

# What cannot be asked in this time is not known for now; the next call asks again.
_SECONDS = 10.0
_AT_ONCE = 200
_BUFFER_BYTES = 256 * 1024


class CopyEnd(Protocol):
    """How far a partition is copied, as in `CommitRecord`."""

    @property
    def position(self) -> int:
        """Next source offset to copy."""
        ...

    @property
    def leader_epoch(self) -> int | None:
        """Leader epoch of the last record copied; None if unknown."""
        ...

    @property
    def epoch_end(self) -> int | None:
        """Offset after the last record copied, where `leader_epoch` holds; None if that is the position."""
        ...


class LogEnds(NamedTuple):
    """Up to where logs are those that were copied, and those that groups have read.

    Attributes:
        offsets: By partition its end, or where it was cut off below what was copied; `NOT_KNOWN` where the source could
            not be asked in time, or could not tell.
        offline: Partitions without a leader, or hidden from the principal, with the reason.
        read_to: Where groups may have read what the log has no more: by partition and leader epoch of their commits, up
            to where the log has what was read; `NOT_KNOWN` as above. Others are left out.
    """

    offsets: dict[TopicPartition, int]
    offline: dict[TopicPartition, str]
    read_to: dict[TopicPartition, dict[int, int]]

    def why_unknown(self, source: TopicPartition, committed: CommittedOffset) -> str:
        """Why a group's position in a partition means nothing, and what to do; empty if it does mean something."""
        end = self.offsets.get(source)
        if end == NOT_KNOWN:
            why = self.offline.get(source, "it has another leader since, who did not tell in time")
            return f"up to where {source} still holds what was copied is not known now: {why}"
        if end is not None and committed.offset > end:
            return (
                f"{source} holds what was copied up to offset {end} only: there it ends, or was cut off, and a group "
                "stands above. If it was cut off, 'k2k status' shows how to go on as soon as the copy has noticed it"
            )
        if not is_of_former_log(committed, self.read_to.get(source, {})):
            return ""
        return (
            f"{source} was cut off once, and a group that stands above commits leader epoch {committed.leader_epoch}, "
            "of before: what it has read there may be what was lost. If its clients have read the log of today, and "
            "only keep to the epoch with which they began (Sarama does), stop them and commit the same position "
            "without one on the source: kafka-consumer-groups.sh --reset-offsets --to-current --execute with the "
            f"group and --topic {source.topic}:{source.partition}"
        )


class _Epoch(NamedTuple):
    """A leader epoch of a partition."""

    partition: TopicPartition
    epoch: int


class _Answer(NamedTuple):
    """The leader's answer up to where its log has what was read under an epoch; or it has all below `position`."""

    epoch_today: int
    position: int
    end: int

    def holds(self, epoch_today: int, position: int) -> bool:
        """An end does, however long the log gets, until the leader is another one."""
        return self.epoch_today == epoch_today and (self.end != BEYOND_ALL_LOGS or position <= self.position)


class SourceLogs:
    """Up to where the logs of a source are those that were copied. Only one thread at a time may use it.

    Args:
        pipeline: The pipeline.
        source: Its source cluster.
    """

    def __init__(self, pipeline: Pipeline, source: Cluster) -> None:
        self._pipeline = pipeline
        self._source = source
        self._answers: dict[_Epoch, _Answer] = {}
        self._in_vain: set[_Epoch] = set()  # asked for before, and not answered in time
        self._cuts: dict[_Epoch, int] = {}

    def ends(
        self,
        partitions: Iterable[TopicPartition],
        copied: Mapping[TopicPartition, CommitRecord],
        groups: Iterable[GroupOffsets] | None = None,
        indexed: Mapping[TopicPartition, CopyEnd] | None = None,
    ) -> LogEnds:
        """The offset up to which each log is the one that was copied: its end, or where it was cut off since.

        Args:
            partitions: Partitions of the source.
            copied: The newest commit record of each.
            groups: Commits of groups in them; they are judged where the log has once lost records that a copy had read
                (`CommitRecord.source_was_cut`). None: other positions are asked for.
            indexed: How far each is copied by the mappings that answer; None: as far as the commit records say.

        Raises:
            ClusterUnreachable: No broker answers.
            Refused: The principal may not describe one of the topics.
        """
        (ends, offline), epochs = self._source.led_ends(partitions)
        told = told_by_stops(copied)
        cut_once = {tp for tp, record in copied.items() if groups is not None and record.source_was_cut}
        # Behind the end of a log that was cut off, no leader tells where: only that it is shorter.
        of_copies = {
            _Epoch(tp, copy.leader_epoch): min(_end_of_epoch(copy), end)
            for tp, end in ends.items()
            if (copy := (copied if indexed is None else indexed).get(tp)) and copy.leader_epoch is not None
            if tp in epochs and epochs[tp] != copy.leader_epoch
        }
        judged = {tp: epochs[tp] for tp in cut_once if tp in epochs}
        of_groups = {
            of: min(position, ends[of.partition]) for of, position in _read_earlier(groups or (), judged).items()
        }
        # An epoch that the log has not reached need not be asked for: nobody has read under it there.
        asked = {of: position for of, position in of_groups.items() if of.epoch < epochs[of.partition]}
        wanted = asked | {of: max(position, asked.get(of, 0)) for of, position in of_copies.items()}
        kept = {of: answer for of, answer in self._answers.items() if of.partition in offline}
        self._ask(wanted, epochs)
        self._answers |= kept
        self._note_cuts(wanted, offline)
        read_to: dict[TopicPartition, dict[int, int]] = {}
        for of, end in self._cut_below(of_groups).items():
            read_to.setdefault(of.partition, {})[of.epoch] = end
        found = {**ends, **{of.partition: end for of, end in self._cut_below(of_copies).items()}}
        found |= {tp: min(end, found[tp]) for tp, end in told.items() if tp in found and end != NOT_KNOWN}
        return LogEnds({**found, **self._without_leader(offline, told, cut_once)}, offline, read_to)

    def _without_leader(
        self,
        offline: Collection[TopicPartition],
        told: Mapping[TopicPartition, int],
        cut_once: Iterable[TopicPartition],
    ) -> dict[TopicPartition, int]:
        """What is known of logs that were cut off once, and that nobody can be asked about now."""
        cuts = [(of.partition, end) for of, end in self._cuts.items()]
        cuts += [*told.items(), *((tp, NOT_KNOWN) for tp in cut_once)]
        found: dict[TopicPartition, int] = {}
        for tp, end in cuts:
            if tp in offline:
                found[tp] = min(end, found.get(tp, end))
        return found

    def _cut_below(self, positions: Mapping[_Epoch, int]) -> dict[_Epoch, int]:
        """Where the log was cut off below these positions, or `NOT_KNOWN`."""
        has = {of: self._answers[of].end if of in self._answers else NOT_KNOWN for of in positions}
        return {of: has[of] for of, position in positions.items() if has[of] < position}

    def _note_cuts(self, positions: Mapping[_Epoch, int], offline: Collection[TopicPartition]) -> None:
        """Notes where logs were cut off below these positions; of those that cannot be asked now it stays noted."""
        before, found = self._cuts, {of: end for of, end in self._cut_below(positions).items() if end != NOT_KNOWN}
        self._cuts = {of: end for of, end in before.items() if of.partition in offline} | found
        for of in found.keys() - before.keys():
            log.warning(
                "%s: positions above %d are of a former log: leader epoch %d ends there", of[0], found[of], of[1]
            )

    def _ask(self, asked: Mapping[_Epoch, int], epochs: Mapping[TopicPartition, int]) -> None:
        """Asks for what is not known yet; then `_answers` has what could be told in time."""
        today = {of: epochs[of.partition] for of in asked}
        before = {of: self._answers[of] for of in asked if of in self._answers}
        self._answers = {of: answer for of, answer in before.items() if answer.holds(today[of], asked[of])}
        new = today.keys() - self._answers.keys()
        self._in_vain &= new
        if not new:
            return
        partitions = {of.partition for of in new}
        # Below the log start no leader knows the epochs any more; what was cut off there is deleted as well.
        starts = self._source.led_offsets(partitions, "earliest").offsets
        deleted = {of for of in new if asked[of] <= starts.get(of.partition, -1)}
        self._answers |= {of: _Answer(today[of], asked[of], BEYOND_ALL_LOGS) for of in deleted}
        # At the end the leader tells where the epoch ends, which is right for all positions below as well.
        ends = self._source.led_offsets(partitions, self._pipeline.readable_end).offsets
        at = {of: max(asked[of], ends.get(of.partition, 0)) for of in new - deleted}
        left, deadline = sorted(at, key=self._in_vain.__contains__), Deadline(_SECONDS)
        while left and not deadline.expired():
            some = dict(islice({of.partition: of for of in left}.items(), _AT_ONCE))  # of each partition one at a time
            left = [of for of in left if of not in some.values()]
            try:
                found = self._validated({tp: Position(at[of], of.epoch) for tp, of in some.items()}, deadline)
            except (K2KError, Restart) as error:
                log.warning("whether the source still holds what was copied or read cannot be asked now: %s", error)
                return
            told = {some[tp]: end for tp, end in found.items() if end != NOT_KNOWN}
            self._answers |= {of: _Answer(today[of], at[of], end) for of, end in told.items()}
            self._in_vain = self._in_vain.union(some.values()).difference(told)

    def _validated(self, wanted: Mapping[TopicPartition, Position], deadline: Deadline) -> dict[TopicPartition, int]:
        """Reads from these positions on, so that the leaders are asked; returns what is known in time."""
        found: dict[TopicPartition, int] = {}
        source = records_transport_of(self._pipeline).open_source(_BUFFER_BYTES)
        try:
            source.assign(wanted)
            while wanted.keys() - found.keys() and not deadline.expired():
                try:
                    # One event at a time: none is lost where the next one is a stop, which is the usual answer.
                    polled = source.poll(1, min(0.1, deadline.remaining()))
                except SourceStopped as stopped:
                    if stopped.partition not in found:
                        found[stopped.partition] = _end_told(stopped.partition, stopped.reason)
                    continue
                found.update(dict.fromkeys([*(chunk.source for chunk in polled.chunks), *polled.ends], BEYOND_ALL_LOGS))
        finally:
            source.close()
        return found


def told_by_stops(copied: Mapping[TopicPartition, CommitRecord]) -> dict[TopicPartition, int]:
    """Where logs were cut off, or `NOT_KNOWN`, by the stops of their copies: all that is known without the source.

    Args:
        copied: The newest commit record of each partition.
    """
    return {tp: _cut_at(record.reason) for tp, record in copied.items() if record.is_source_cut}


def _read_earlier(groups: Iterable[GroupOffsets], epochs: Mapping[TopicPartition, int]) -> dict[_Epoch, int]:
    """The highest position by partition and leader epoch, of commits in another epoch than that of today.

    Args:
        groups: The groups.
        epochs: That of today, of the partitions that are looked at.
    """
    highest: dict[tuple[TopicPartition, int], int] = {}
    for group in groups:
        for tp, (offset, _, epoch) in group.offsets.items():
            if epoch is not None and epochs.get(tp, epoch) != epoch and offset >= highest.get((tp, epoch), 0):
                highest[tp, epoch] = offset
    return {_Epoch(*of): position for of, position in highest.items()}


def _end_of_epoch(record: CopyEnd) -> int:
    """The offset after the last record that was copied, where the leader epoch of the commit record holds."""
    return record.position if record.epoch_end is None else record.epoch_end


def _end_told(partition: TopicPartition, reason: StopReason) -> int:
    """Where an epoch ends, by the reason for which the log cannot be read on behind it."""
    if isinstance(reason, SourceReadDenied | BatchUnreadable | RecordsDeleted):
        return BEYOND_ALL_LOGS  # the leader was asked before it was read
    end = _cut_at(reason)
    if end == NOT_KNOWN:
        log.warning("%s: which positions are of a former log is not known: %s", partition, render(reason))
    return end


def _cut_at(reason: StopReason | None) -> int:
    end = reason.epoch_end if isinstance(reason, SourceDiverged) else None
    return NOT_KNOWN if end is None or end < 0 else end
