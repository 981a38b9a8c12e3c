"""Reads the status of a copy, once or repeatedly. It only reads clusters and commit log, and disturbs no copy."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from types import TracebackType

from k2k_assets.control.commit_log import CommitLog, read_commit_log
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.newest_commits import NewestCommits
from k2k_assets.control.pauses import PauseReader
from k2k_assets.control.stop_notes import StopNotes
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.status.commit_tail import CommitTail
from k2k_assets.status.copy_status import CopyStatus, MovedGroups, copied_topics
from k2k_assets.status.history import CopyHistory
from k2k_assets.status.lag_reader import read_lags
from k2k_assets.status.moved_groups import moved_groups
from k2k_assets.status.waiting_records import WaitingRecords
from k2k_assets.topics.names import selected
from k2k_assets.topics.selection import selected_on

# How often groups are read: they cost many requests, and change slowly.
_GROUPS_SECONDS = 30.0


class CopyReader:
    """Reads the status of a copy. After an error the caller has to close it and make another one.

    Args:
        pipeline: The pipeline.
        source: The source cluster.
        target: The target cluster.

    Raises:
        ClusterUnreachable: A cluster does not answer.
        Refused: A commit record cannot be read, and the policy says fail.
    """

    def __init__(self, pipeline: Pipeline, source: Cluster, target: Cluster) -> None:
        self._pipeline, self._source, self._target = pipeline, source, target
        self._history = CopyHistory()
        self._log = CommitLog()
        self._is_mended = False
        self._notes = StopNotes()
        self._tail: CommitTail | None = None
        self._groups: MovedGroups | None = None
        self._groups_until = 0.0
        self._open = ExitStack()
        self._records = self._open.enter_context(WaitingRecords(pipeline))
        self._pauses = PauseReader(pipeline, target)
        self._open.callback(self._pauses.close)

    def read(self) -> CopyStatus:
        """Reads the present status.

        Raises:
            ClusterUnreachable: A cluster does not answer.
            Refused: The principal may not see the topics, a commit record cannot be read, or the commit topic that was
                followed is gone.
        """
        self._follow()
        records = self._newest()
        stopped = self._stopped(records)
        existing = self._source.topics()
        topics = selected_on(self._pipeline, self._source, existing)
        topics |= selected(self._pipeline, {tp.topic for tp in (*records, *stopped)})
        known = {tp for tp in (*records, *stopped) if tp.topic in topics and (tp in stopped or _may_be(tp, existing))}
        partitions = known | {TopicPartition(t, p) for t in topics & existing.keys() for p in range(existing[t])}
        positions = {tp: records[tp].position if tp in records else None for tp in partitions}
        lags = read_lags(self._pipeline, self._source, positions, self._records)
        now = int(time.time() * 1000)
        targets = {tp.topic: self._pipeline.routing.target_if_any(tp.topic) for tp in partitions}
        copied = copied_topics(lags, records, stopped, targets, self._history, now, self._pauses.read())
        return CopyStatus(now, copied, self._moved(topics & existing.keys()))

    def close(self) -> None:
        """Closes the clients."""
        self._open.close()

    def __enter__(self) -> CopyReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def _follow(self) -> None:
        """Reads the whole commit log at the first call, and new records at later calls.

        The log is read again when something is written of a partition whose newest record cannot be read.
        """
        name = self._pipeline.coordination.commit.topic
        if self._tail is None and (topic := self._target.describe([name]).get(name)):
            cluster_id = self._source.cluster_id()
            self._tail = CommitTail(self._pipeline, cluster_id, topic, self._target, self._take, self._notes.take)
            self._open.callback(self._tail.close)
            self._read_log()
        if self._tail is not None:
            self._tail.read()
        if self._is_mended:
            self._read_log()

    def _read_log(self) -> None:
        self._is_mended = False
        self._log = read_commit_log(self._pipeline, self._source.cluster_id(), self._target)
        for tp, note in self._log.noted.items():
            self._notes.take(tp, note)

    def _take(self, record: CommitRecord) -> None:
        self._history.apply(record)
        self._is_mended |= record.source in self._log.unreadable

    def _newest(self) -> dict[TopicPartition, CommitRecord]:
        newest: NewestCommits[TopicPartition] = NewestCommits()
        for record in (*self._log.positions.values(), *self._history.newest.values()):
            newest.take(record.source, record)
        return newest.records

    def _stopped(self, records: Mapping[TopicPartition, CommitRecord]) -> dict[TopicPartition, StopReason]:
        found = {tp: note.reason for tp, note in self._notes.notes.items() if tp not in records}
        found |= {tp: record.reason for tp, record in records.items() if record.reason is not None}
        for tp in self._log.unreadable:
            if reason := self._log.unreadable_reason(tp):
                found[tp] = reason
        return found

    def _moved(self, topics: Collection[str]) -> MovedGroups | None:
        if time.monotonic() >= self._groups_until:
            self._groups = moved_groups(self._pipeline, self._source, self._target, topics)
            self._groups_until = time.monotonic() + _GROUPS_SECONDS
        return self._groups


def _may_be(tp: TopicPartition, existing: Mapping[str, int]) -> bool:
    """Whether a topic may have a partition: it is gone where the topic was created anew with fewer."""
    return tp.partition < existing.get(tp.topic, tp.partition + 1)
