"""One batch of a partition in a request, in order; whatever an answer says that is no success ends it."""

from __future__ import annotations

import socket
import struct
import time

import pytest

from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import Fenced, Forbidden, Restart, Undeliverable
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch
from k2k_assets.transport.record_batch.batches.packing import packed
from k2k_assets.transport.record_batch.errors import ProtocolError
from k2k_assets.transport.record_batch.wire.connection import BrokerConnection
from k2k_assets.transport.record_batch.wire.control_messages import PRODUCE, SpokenVersions, VersionRange
from k2k_assets.transport.record_batch.wire.primitives import NO_TAGS, array, text
from k2k_assets.transport.record_batch.wire.request_pipeline import BrokerRequest
from k2k_assets.transport.record_batch.wire.settings import settings_of
from k2k_assets.transport.record_batch.wire.tasks import Loop, Task
from k2k_assets.transport.record_batch.wire.traffic import QueueSize
from k2k_assets.transport.record_batch.writing.leader_writer import LeaderWriter
from k2k_assets.transport.record_batch.writing.pending_chunk import PendingChunk, QueuedBatch
from k2k_assets.transport.record_batch.writing.target_partitions import TargetPartition
from k2k_assets_tests.support.brokers.kafka import SECONDS
from k2k_assets_tests.support.brokers.kafka_frames import Request, read_frame
from k2k_assets_tests.support.memory.fake_records import ListRecords

SEQUENCE_AT, PRODUCER_AT = 53, 43
A, B = TopicPartition("a", 0), TopicPartition("b", 3)
LONG_AGO = 24 * 3600
"""So long brokers remember a producer."""


class OneTransaction:
    """What writers share."""

    transactional_id: str | None = "me"
    identity = ProducerIdentity(7, 2)
    has_epoch_each = True

    def __init__(self) -> None:
        self.acknowledged_bytes = 0
        self.leaderless: list[tuple[TargetPartition, str]] = []

    def acknowledged(self, size: QueueSize) -> None:
        self.acknowledged_bytes += size.bytes_

    def seek_leader(self, partition: TargetPartition, why: str) -> None:
        self.leaderless.append((partition, why))


class Writing:
    """A writer without a connection; its requests are of version 9, which names topics."""

    def __init__(self) -> None:
        self.transaction = OneTransaction()
        self.writer = LeaderWriter(("broker", 1), settings_of({"bootstrap.servers": "broker:1"}), self.transaction)
        self.partitions = {tp: TargetPartition(tp, bytes(16), 1) for tp in (A, B)}

    def send(self, tp: TopicPartition, *counts: int, is_control: bool = False) -> list[QueuedBatch]:
        """Queues batches of so many records."""
        queued = [QueuedBatch(_batch(count)) if is_control else _queued(count) for count in counts]
        self.writer.send(self.partitions[tp], queued)
        return queued


def _queued(count: int) -> QueuedBatch:
    chunk = Chunk(TopicPartition("from", 0), ListRecords(list(range(100, 100 + count))), "to", 0)
    (queued,) = PendingChunk(Sent(chunk)).queued(0, range(count), [_batch(count)])
    return queued


def _base(queued: QueuedBatch) -> int:
    """Where a batch is, as far as that is known."""
    assert queued.part is not None
    return queued.part.bases[queued.number]


def _batch(count: int) -> OutgoingBatch:
    return packed([(None, b"value", (), 1)] * count)


def _answer(
    *partitions: tuple[TopicPartition, int, int], refused: tuple[tuple[int, str], ...] = (), throttled: int = 0
) -> memoryview:
    """Of version 9: error and base offset of each partition."""
    wrong = array([struct.pack(">i", index) + text(words) + NO_TAGS for index, words in refused])
    topics = [
        text(tp.topic)
        + array([struct.pack(">ihqqq", tp.partition, error, base, -1, 0) + wrong + b"\0" + NO_TAGS])
        + NO_TAGS
        for tp, error, base in partitions
    ]
    return memoryview(array(topics) + struct.pack(">i", throttled) + NO_TAGS)


def _headers(request: BrokerRequest) -> list[tuple[int, int, int]]:
    """Producer id, epoch and sequence of each batch."""
    found = []
    for head in request.pieces[:-1:2]:
        header = bytes(head)[-61:]
        found.append(struct.unpack_from(">qhi", header, PRODUCER_AT))
    return found


def test_a_request_has_one_batch_of_a_partition_and_sequences_go_on() -> None:
    writing = Writing()
    writing.send(A, 3, 4, 5)
    writing.send(B, 2)
    requests = []
    while writing.writer.has_request():
        requests.append(writing.writer.next_request())
    assert [_headers(request) for request in requests] == [[(7, 2, 0), (7, 2, 0)], [(7, 2, 3)], [(7, 2, 7)]]
    assert writing.partitions[A].sequence == 12


def test_answers_tell_where_batches_are() -> None:
    writing = Writing()
    queued = [*writing.send(A, 3, 4), *writing.send(B, 2)]
    first, second = writing.writer.next_request(), writing.writer.next_request()
    first.on_answer(_answer((B, 0, 40), (A, 0, 10)))
    second.on_answer(_answer((A, 0, 13)))
    assert [_base(each) for each in queued] == [10, 13, 40]
    assert writing.transaction.acknowledged_bytes == sum(_batch(count).size for count in (3, 4, 2))


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (47, Fenced, "writing to a-0"),
        (90, Fenced, "writing to a-0"),
        (49, Fenced, "writing to a-0"),
        (29, Forbidden, "not allowed"),
        (20, Restart, "writing to a-0"),
        (45, Restart, "writing to a-0"),
        (46, Restart, "writing to a-0"),
        (120, Restart, "writing to a-0"),
        (-1, Restart, "writing to a-0"),
        (999, Restart, "writing to a-0"),
    ],
)
def test_an_error_ends_it(error: int, raised: type[Exception], words: str) -> None:
    writing = Writing()
    (queued,) = writing.send(A, 3)
    with pytest.raises(raised, match=words):
        writing.writer.next_request().on_answer(_answer((A, error, -1)))
    assert _base(queued) == -1
    assert writing.transaction.acknowledged_bytes == 0


@pytest.mark.parametrize("error", [3, 5, 6, 19, 51, 100])
def test_what_was_not_written_goes_again_with_all_behind_it(error: int) -> None:
    writing = Writing()
    queued = writing.send(A, 3, 4, 5, 6)
    requests = [writing.writer.next_request() for _ in range(3)]
    requests[0].on_answer(_answer((A, 0, 10)))
    requests[1].on_answer(_answer((A, error, -1)))
    queued += writing.send(A, 7)
    assert not writing.writer.has_request(), "what comes later waits, too"
    assert not writing.transaction.leaderless, "an answer is missing"
    requests[2].on_answer(_answer((A, 45, -1)))
    ((partition, why),) = writing.transaction.leaderless
    assert why.startswith("broker:1: a-0: ")
    other = Writing()
    other.writer.take_over(partition)
    again = [other.writer.next_request() for _ in range(4)]
    assert not other.writer.has_request()
    assert [_headers(request) for request in again] == [[(7, 2, 3)], [(7, 2, 7)], [(7, 2, 12)], [(7, 2, 18)]]
    for request, base in zip(again, (13, 17, 22, 28), strict=True):
        request.on_answer(_answer((A, 0, base)))
    assert [_base(each) for each in queued] == [10, 13, 17, 22, 28]
    assert partition.sequence == 25


def test_a_leader_that_was_deposed_after_it_had_written_ends_it() -> None:
    writing = Writing()
    writing.send(A, 3)
    with pytest.raises(Restart, match="writing to a-0"):
        writing.writer.next_request().on_answer(_answer((A, 6, 10)))


def test_outside_transactions_the_first_batch_goes_alone() -> None:
    """A broker that knows nothing of a producer takes any sequence: also that of a batch behind one that it refuses."""
    writing = Writing()
    writing.transaction.transactional_id = None
    writing.partitions[A].identity = ProducerIdentity(8, 0)
    writing.send(A, 3, 4, 5)
    first = writing.writer.next_request()
    writing.send(A, 6)
    assert not writing.writer.has_request()
    first.on_answer(_answer((A, 19, -1)))
    ((partition, _),) = writing.transaction.leaderless
    writing.writer.take_over(partition)
    again = writing.writer.next_request()
    assert _headers(again) == [(8, 0, 0)]
    assert not writing.writer.has_request()
    again.on_answer(_answer((A, 0, 10)))
    following = [writing.writer.next_request() for _ in range(3)]
    assert [_headers(request) for request in following] == [[(8, 0, 3)], [(8, 0, 7)], [(8, 0, 12)]]
    assert not writing.writer.has_request()
    for request, base in zip(following, (13, 17, 22), strict=True):
        request.on_answer(_answer((A, 0, base)))
    partition.taken_at = time.monotonic() - LONG_AGO
    writing.send(A, 1, 1)
    writing.writer.next_request()
    assert not writing.writer.has_request(), "the broker may have forgotten the producer"


def test_a_batch_that_was_written_behind_one_that_was_not_ends_it() -> None:
    writing = Writing()
    writing.send(A, 3, 3)
    first, second = writing.writer.next_request(), writing.writer.next_request()
    first.on_answer(_answer((A, 19, -1)))
    with pytest.raises(Restart, match="one before it was not"):
        second.on_answer(_answer((A, 0, 10)))


def test_other_partitions_go_on_meanwhile() -> None:
    writing = Writing()
    writing.send(A, 3, 3)
    writing.send(B, 2, 2)
    writing.writer.next_request().on_answer(_answer((A, 6, -1), (B, 0, 5)))
    request = writing.writer.next_request()
    assert _headers(request) == [(7, 2, 2)]
    request.on_answer(_answer((B, 0, 7)))
    ((partition, _),) = writing.transaction.leaderless
    assert (partition.tp, len(partition.ready)) == (A, 2)


@pytest.mark.parametrize(
    ("count", "error", "refused", "index", "final"),
    [
        (1, 10, (), 0, True),
        (3, 10, (), None, False),
        (3, 87, ((2, "no key"),), 2, True),
        (3, 87, ((7, "not in it"),), None, False),
        (3, 32, ((0, "too old"),), 0, True),
    ],
)
def test_a_refused_record_is_named_where_the_broker_tells(
    count: int, error: int, refused: tuple[tuple[int, str], ...], index: int | None, final: bool
) -> None:
    writing = Writing()
    writing.send(A, count)
    with pytest.raises(Undeliverable) as raised:
        writing.writer.next_request().on_answer(_answer((A, error, -1), refused=refused))
    assert (raised.value.index, raised.value.final) == (index, final)


def test_a_verdict_counts_more_than_what_follows_from_it() -> None:
    writing = Writing()
    writing.send(A, 1)
    writing.send(B, 1)
    with pytest.raises(Undeliverable):
        writing.writer.next_request().on_answer(_answer((A, 120, -1), (B, 10, -1)))


def test_a_refused_control_record_is_nobodys_data() -> None:
    writing = Writing()
    writing.send(A, 1, is_control=True)
    with pytest.raises(Restart, match="writing to a-0"):
        writing.writer.next_request().on_answer(_answer((A, 10, -1)))


@pytest.mark.parametrize("base", [-1, 0, 12])
def test_a_batch_that_is_said_to_be_where_another_is_ends_it(base: int) -> None:
    writing = Writing()
    writing.send(A, 3, 3)
    first, second = writing.writer.next_request(), writing.writer.next_request()
    first.on_answer(_answer((A, 0, 10)))
    with pytest.raises(Restart, match="before the end 13"):
        second.on_answer(_answer((A, 0, base)))


@pytest.mark.parametrize("answer", [_answer(), _answer((B, 0, 1)), _answer((A, 0, 1), (B, 0, 1)), memoryview(b"\1")])
def test_an_answer_about_something_else_ends_it(answer: memoryview) -> None:
    writing = Writing()
    writing.send(A, 3)
    with pytest.raises(ProtocolError):
        writing.writer.next_request().on_answer(answer)


@pytest.mark.parametrize("answer", [_answer((A, 0, 10), (A, 45, -1)), _answer()])
def test_an_answer_that_cannot_be_believed_ends_the_writer(monkeypatch: pytest.MonkeyPatch, answer: memoryview) -> None:
    """Also if nothing else is under way: it is no idle connection that was lost."""
    ours, brokers = socket.socketpair()
    with ours, brokers:
        ours.setblocking(False)
        brokers.settimeout(SECONDS)
        monkeypatch.setattr(BrokerConnection, "open", lambda connection: _opened(connection, ours))
        writing, loop = Writing(), Loop()
        writing.transaction.has_epoch_each = False
        writing.send(A, 3)
        loop.start(writing.writer.run())
        loop.run(0, lambda: True)
        asked = read_frame(brokers)
        assert asked is not None
        body = struct.pack(">i", Request.parse(asked, 0).correlation) + b"\0" + answer
        brokers.sendall(struct.pack(">i", len(body)) + body)
        with pytest.raises(ProtocolError):
            loop.run(SECONDS, lambda: False)
        loop.stop()


def test_a_broker_that_closes_each_connection_at_once_is_not_connected_to_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is ready goes back to whoever finds leaders, as if it could not be connected to."""
    opened: list[socket.socket] = []

    def opened_and_closed(connection: BrokerConnection) -> Task[None]:
        ours, brokers = socket.socketpair()
        ours.setblocking(False)
        brokers.close()
        opened.append(ours)
        return _opened(connection, ours)

    monkeypatch.setattr(BrokerConnection, "open", opened_and_closed)
    writing, loop = Writing(), Loop()
    writing.transaction.has_epoch_each = False
    writing.send(A, 3)
    loop.start(writing.writer.run())
    for _ in range(20):
        loop.run(0, lambda: True)
    loop.stop()
    assert len(opened) == 1
    ((partition, why),) = writing.transaction.leaderless
    assert (partition.tp, why) == (A, "broker:1: the broker has closed the connection")
    assert not writing.writer.has_request()


def _opened(connection: BrokerConnection, sock: socket.socket) -> Task[None]:
    connection._sock = sock
    connection.spoken = SpokenVersions(by_api={PRODUCE: VersionRange(0, 9)})
    yield from ()


def test_a_throttled_writer_waits_and_not_for_ever() -> None:
    writing = Writing()
    writing.send(A, 3)
    writing.writer.next_request().on_answer(_answer((A, 0, 1), throttled=2**31 - 1))
    assert 1.0 < writing.writer.not_before - time.monotonic() <= 60.0


def test_sources_that_share_a_partition_come_in_requests_after_another() -> None:
    """Of two batches of a partition in one request the broker drops the first without a word."""
    writing = Writing()
    writing.transaction.transactional_id = None
    streams = [TargetPartition(A, bytes(16), 1, identity=ProducerIdentity(number, number)) for number in (8, 9)]
    for stream, count in zip(streams, (3, 4), strict=True):
        stream.taken_at = time.monotonic()
        writing.writer.send(stream, [_queued(count)] * 2)
    writing.send(B, 2)
    requests = []
    while writing.writer.has_request():
        requests.append(writing.writer.next_request())
    assert sum(len(_headers(request)) for request in requests) == 5
    of_a = [next(head for head in _headers(request) if head[0] != 7) for request in requests]
    assert of_a == [(8, 8, 0), (9, 9, 0), (8, 8, 3), (9, 9, 4)], "in turns"
