"""Fetches from all leaders at once: a task for each broker, with one request under way, and one that finds leaders."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import clients
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.record_batch.errors import AnswerTooLarge, ConnectionLost, ProtocolError, error_text
from k2k_assets.transport.record_batch.reading.answers import OFFSET_OUT_OF_RANGE, take, take_out_of_range
from k2k_assets.transport.record_batch.reading.leadership import learn_leaders
from k2k_assets.transport.record_batch.reading.partitions import NOBODY, ReadPartition
from k2k_assets.transport.record_batch.wire import control_messages as messages
from k2k_assets.transport.record_batch.wire import fetch_messages
from k2k_assets.transport.record_batch.wire.connection import BrokerConnection
from k2k_assets.transport.record_batch.wire.control_messages import ASKED_VERSIONS, EARLIEST, LATEST, LIST_OFFSETS
from k2k_assets.transport.record_batch.wire.fetch_messages import FetchAnswer, FetchLimits, FetchPosition
from k2k_assets.transport.record_batch.wire.metadata_client import MetadataClient
from k2k_assets.transport.record_batch.wire.settings import SourceSettings
from k2k_assets.transport.record_batch.wire.tasks import Loop, Task, Wait, pause
from k2k_assets.transport.record_batch.wire.traffic import NOTHING

log = logging.getLogger("k2k.transport")

_BETWEEN_QUESTIONS = 0.1
"""Seconds between two questions for leaders, at least."""
_LONGEST_BETWEEN_QUESTIONS = 1.0
_REFRESH = 300.0
_FOREVER = float("inf")
_WARN_EACH = 30


class Fetching:
    """Fetches partitions until it is closed.

    Args:
        settings: How brokers are connected to, and how much is asked for.
        loop: Runs the tasks.
        cluster: Tells who leads.
        partitions: What is read; their queues are filled.
        most_joined: Small batches with so many records at most are handed out as one; 0: none are.

    Attributes:
        queued: How much is in their queues; who takes something out notes it here.
    """

    def __init__(
        self,
        settings: SourceSettings,
        loop: Loop,
        cluster: MetadataClient,
        partitions: Iterable[ReadPartition],
        most_joined: int = 0,
    ) -> None:
        self.queued = NOTHING
        self._settings, self._loop, self._cluster = settings, loop, cluster
        self._partitions = {partition.tp: partition for partition in partitions}
        self._most_joined = most_joined
        self._nodes: set[int] = set()
        self._turns: Counter[int] = Counter()

    def start(self) -> None:
        """Begins; the leaders are known as far as brokers tell."""
        self._start_fetching()
        self._loop.start(self._follow_leaders())

    def _start_fetching(self) -> None:
        leaders = {partition.leader for partition in self._partitions.values()} - {NOBODY}
        for node in leaders - self._nodes:
            self._nodes.add(node)
            self._loop.start(self._fetch_from(node))

    def _follow_leaders(self) -> Task[None]:
        """Asks for leaders where one is missing, and now and then in any case."""
        refused = in_vain = 0
        topics = {tp.topic for tp in self._partitions}
        while True:
            yield Wait(time.monotonic() + _REFRESH, ready=self._seeks_leader)
            try:
                learn_leaders(self._partitions.values(), (yield from self._cluster.ask(topics)))
                refused = 0
            except ConnectionLost as lost:
                refused = _warn(refused, lost)
            self._start_fetching()
            in_vain = in_vain + 1 if self._seeks_leader() else 0
            yield from pause(min(_BETWEEN_QUESTIONS * 2 ** min(in_vain, 10), _LONGEST_BETWEEN_QUESTIONS))

    def _seeks_leader(self) -> bool:
        return any(each.leader == NOBODY and not each.is_stopped for each in self._partitions.values())

    def _fetch_from(self, node: int) -> Task[None]:
        """Fetches what a node leads; connects again with growing pauses."""
        refused = 0
        while True:
            yield Wait(_FOREVER, ready=lambda: self._has_work(node))
            address = self._cluster.brokers.get(node)
            if address is None:  # it has left the cluster meanwhile
                self._seek_leaders(node)
                continue
            connection = BrokerConnection(address, self._settings)
            try:
                yield from connection.open()
                while True:
                    yield from self._fetch_once(connection, node)
                    refused = 0
            except AnswerTooLarge as large:
                advice = "Set source.kafka.consumer.'receive.message.max.bytes' to more than that"
                raise Restart(f"source: {large}. {advice}") from None
            except ConnectionLost as lost:
                refused = _warn(refused, lost)
                self._seek_leaders(node)  # it may have left the cluster, or have another address now
                shortest, longest = self._settings.backoff
                yield from pause(min(shortest * 2 ** min(refused, 20), longest))
            finally:
                connection.close()

    def _seek_leaders(self, node: int) -> None:
        for each in self._led_by(node):
            each.seek_leader()

    def _fetch_once(self, connection: BrokerConnection, node: int) -> Task[None]:
        yield Wait(_FOREVER, ready=lambda: self._has_work(node))
        asked = [partition.wanted() for partition in self._in_turn(node)]
        version, limits = connection.fetch_version, self._limits()
        body = fetch_messages.fetch(version, asked, limits)
        largest = self._settings.largest_answer
        read = partial(fetch_messages.read_fetch, version)
        fetched = yield from connection.ask(messages.FETCH, version, body, read, largest, limits.wait_ms / 1000)
        if fetched.error:
            raise ProtocolError(f"{connection}: the answer to a fetch is an error: {error_text(fetched.error)}")
        yield from self._take(connection, asked, fetched)
        if fetched.throttled:
            self._settings.traffic.throttled(fetched.throttled)
            yield from pause(fetched.throttled)

    def _take(self, connection: BrokerConnection, asked: Sequence[FetchPosition], answer: FetchAnswer) -> Task[None]:
        with_ids = connection.fetch_version >= fetch_messages.WITH_TOPIC_IDS
        by_name = {((each.topic_id if with_ids else each.tp.topic), each.tp.partition): each for each in asked}
        for each in answer.partitions:
            wanted = by_name.pop((each.topic, each.partition), None)
            if wanted is None:
                raise ProtocolError(f"{connection}: an answer about a partition that was not asked for")
            partition = self._partitions[wanted.tp]
            is_out_of_range = each.error == OFFSET_OUT_OF_RANGE
            log_ends = (yield from _log_ends(connection, wanted.tp)) if is_out_of_range else None
            if partition.is_stopped or (partition.position, partition.epoch) != (wanted.offset, wanted.last_epoch):
                continue  # the leader has moved, and the new one was quicker
            if is_out_of_range:
                take_out_of_range(partition, log_ends)
            else:
                arrived = take(partition, each, self._most_joined)
                self.queued = self.queued.plus(arrived)
                self._settings.traffic.carried(arrived)

    def _limits(self) -> FetchLimits:
        """How much one leader is asked for, so that the answers of all together are not many times what is queued."""
        limits = self._settings.limits
        share = self._settings.queued // max(1, len({each.leader for each in self._partitions.values()}))
        return replace(limits, most=min(limits.most, max(share, limits.of_partition)))

    def _has_work(self, node: int) -> bool:
        return self.queued.bytes_ < self._settings.queued and any(self._led_by(node))

    def _led_by(self, node: int) -> list[ReadPartition]:
        return [each for each in self._partitions.values() if each.leader == node and not each.is_stopped]

    def _in_turn(self, node: int) -> list[ReadPartition]:
        """What a node leads, each time another one first: only the first one's batch comes whole if it is large."""
        found = self._led_by(node)
        # Counted for each node: several that take turns at one count might each have the same ones first for ever.
        self._turns[node] += 1
        at = self._turns[node] % len(found)
        return found[at:] + found[:at]


def _log_ends(connection: BrokerConnection, tp: TopicPartition) -> Task[tuple[int, int] | None]:
    """Where a partition's log begins and ends; None if its leader does not tell."""
    ends: list[int] = []
    with suppress(ConnectionLost):
        for when in (EARLIEST, LATEST):
            body = messages.list_offsets(tp, when)
            error, offset = yield from connection.ask(
                LIST_OFFSETS, ASKED_VERSIONS[LIST_OFFSETS], body, messages.read_list_offsets
            )
            if not error:
                ends.append(offset)
    return (ends[0], ends[1]) if len(ends) == 2 else None


def _warn(refused: int, lost: ConnectionLost) -> int:
    """Logs a broken connection, now and then if it stays so; returns how often it was refused by now."""
    if refused % _WARN_EACH == 0:
        log.warning("source: %s (it is connected to again)%s", lost, clients.advice_on_login("source", lost))
    return refused + 1
