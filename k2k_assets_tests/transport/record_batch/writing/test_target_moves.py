"""A target of three nodes whose leaders and coordinators move, go and freeze while transactions are written to all."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch
from k2k_assets.transport.record_batch.batches.packing import packed
from k2k_assets.transport.record_batch.writing.sink_settings import sink_settings_of
from k2k_assets.transport.record_batch.writing.transactional_producer import TransactionalProducer
from k2k_assets_tests.support.brokers.kafka import PATIENCE, SECONDS, read_all, unique
from k2k_assets_tests.support.brokers.three_nodes import NODES, ThreeNodes

pytestmark = [pytest.mark.integration, pytest.mark.slow]

# A broker says what it waits for after 30 seconds.
STEP_SECONDS, SHORT_STEP_SECONDS, ATTEMPTS = 60.0, 12.0, 4
BETWEEN_TRANSACTIONS = 0.01
_DOUBTS = "closed the connection|reset by peer|Not leader"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    with ThreeNodes("target", tmp_path_factory.mktemp("three")) as nodes:
        yield nodes


@pytest.fixture(autouse=True)
def nodes_speak(target: ThreeNodes, request: pytest.FixtureRequest) -> Iterator[None]:
    """What the nodes have logged is printed if a test fails."""
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed:
        print(target.said())


def _one(value: bytes) -> OutgoingBatch:
    return packed([(None, value, (), time.time_ns() // 1_000_000)])


def _producer(servers: str, transactional_id: str, seconds: float = STEP_SECONDS) -> TransactionalProducer:
    return TransactionalProducer(sink_settings_of({"bootstrap.servers": servers}, seconds), transactional_id, seconds)


def _values(target: ThreeNodes, topic: str, partition: int) -> list[bytes | None]:
    return [record.value for record in read_all(target.servers, topic, partition)]


def _await_values(target: ThreeNodes, topic: str, partition: int, expected: list[bytes]) -> None:
    """Returns when these are the committed records: a commit is answered before all can see its records."""

    def found() -> bool:
        return len(_values(target, topic, partition)) >= len(expected)

    wait_until(found, SECONDS, f"{len(expected)} records in {topic}-{partition}")
    assert _values(target, topic, partition) == expected


class Writing:
    """Writes a number to each partition of a topic in each transaction, and after any doubt begins where that ended."""

    def __init__(self, target: ThreeNodes) -> None:
        self.topic = target.create(unique("to"), NODES)
        self.doubts: list[str] = []
        self.written = 0
        self._target, self._id, self._is_over = target, unique("id"), Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Writing:
        self._thread.start()
        self.await_more()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(SECONDS)

    def await_more(self) -> None:
        """Returns when it has got on."""
        before = self.written
        wait_until(lambda: self.written > before + 20, PATIENCE, "more transactions")

    def _run(self) -> None:
        while not self._is_over.is_set():
            producer = _producer(self._target.servers, self._id)
            try:
                producer.open()
                self.written = len(_values(self._target, self.topic, 0))
                while not self._is_over.wait(BETWEEN_TRANSACTIONS):
                    for partition in range(len(NODES)):
                        producer.queue(TopicPartition(self.topic, partition), _one(b"%d" % self.written))
                    producer.commit()
                    self.written += 1
            except Restart as doubt:
                self.doubts.append(str(doubt))
            finally:
                producer.close()

    def assert_exact(self) -> None:
        """Each partition holds each number once, in order."""
        expected = [b"%d" % number for number in range(self.written)]
        for partition in range(len(NODES)):
            _await_values(self._target, self.topic, partition, expected)


def test_nodes_that_restart_one_after_the_other_refuse_nothing_for_good(target: ThreeNodes) -> None:
    """Two doubts may be left: a request under way when a connection closes has no answer; and a leader that is deposed
    after it has written a batch does not know whether the next one has it.
    """
    with Writing(target) as writing:
        for node in NODES:
            target.restart(node)
            writing.await_more()
    writing.assert_exact()
    assert len(writing.doubts) <= len(NODES)
    assert not [doubt for doubt in writing.doubts if not re.search(_DOUBTS, doubt)]


def test_a_leader_that_hands_over_inside_a_transaction_costs_nothing(target: ThreeNodes) -> None:
    topic = target.create(unique("to"), [2, 3])
    target.restart(2)
    assert target.leaders(topic)[0] != 2
    producer = _producer(target.servers, unique("id"))
    producer.open()
    expected = []
    for moved in (False, True):
        if moved:
            target.elect_preferred(topic, 0, 2)
        for number in range(30):  # many batches of a partition are under way at once
            for partition in (0, 1):
                producer.queue(TopicPartition(topic, partition), _one(b"%d %d" % (moved, number)))
            expected.append(b"%d %d" % (moved, number))
        producer.flush()
    producer.commit()
    producer.close()
    for partition in (0, 1):
        _await_values(target, topic, partition, expected)


def test_a_coordinator_that_goes_is_found_again_by_brokers_that_only_metadata_name(target: ThreeNodes) -> None:
    transactional_id = unique("id")
    coordinator = target.coordinator_of(transactional_id)
    topic = target.create(unique("to"), [node for node in NODES if node != coordinator])
    producer = _producer(target.servers_of(coordinator), transactional_id)
    producer.open()

    def write(value: bytes) -> None:
        for partition in (0, 1):
            producer.queue(TopicPartition(topic, partition), _one(value))

    write(b"before")
    producer.commit()
    write(b"meanwhile")
    producer.flush()
    target.nodes[coordinator].stop()
    try:
        producer.commit()
        write(b"after")
        producer.commit()
        producer.close()
    finally:
        target.nodes[coordinator].start()
        target.await_all()
    for partition in (0, 1):
        _await_values(target, topic, partition, [b"before", b"meanwhile", b"after"])


def test_a_leader_that_does_not_answer_is_named_in_time(target: ThreeNodes) -> None:
    topic = target.create(unique("to"), NODES)
    transactional_id = unique("id")
    silent = next(node for node in NODES if node != target.coordinator_of(transactional_id))
    producer = _producer(target.servers, transactional_id, SHORT_STEP_SECONDS)
    producer.open()
    for partition in range(len(NODES)):
        producer.queue(TopicPartition(topic, partition), _one(b"first"))
    producer.commit()
    for partition in range(len(NODES)):
        _await_values(target, topic, partition, [b"first"])
    # Only to it, and in the transaction already: the others answer late, as long as it counts as in sync with them.
    its_own = TopicPartition(topic, NODES.index(silent))
    producer.queue(its_own, _one(b"lost"))
    producer.flush()
    with target.frozen(silent):
        began = time.monotonic()
        producer.queue(its_own, _one(b"lost"))
        with pytest.raises(Restart, match=f"did not take .* no answer from {target.servers_of(silent)}$"):
            producer.commit()
        assert time.monotonic() - began < 2 * SHORT_STEP_SECONDS
        producer.close()
    target.await_all()
    for _ in range(ATTEMPTS):  # as a slot does: what is not committed is written again
        following = _producer(target.servers, transactional_id)
        with suppress(Restart):
            following.open()
            if b"again" not in _values(target, topic, 0):
                for partition in range(len(NODES)):
                    following.queue(TopicPartition(topic, partition), _one(b"again"))
                following.commit()
            following.close()
            break
        following.close()
    for partition in range(len(NODES)):
        _await_values(target, topic, partition, [b"first", b"again"])
