"""The model broker and a real one, asked the same: same error codes, same offsets, same epochs, same content."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from k2k_assets.core.deadline import Deadline, wait_until
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.record_batch.batches.outgoing import stamped
from k2k_assets.transport.record_batch.batches.packing import packed
from k2k_assets_tests.support.brokers.kafka import SECONDS, create_topic, read_all, unique
from k2k_assets_tests.support.model_broker.asking import Answered, Asking
from k2k_assets_tests.support.model_broker.cluster import NOT_ENOUGH_REPLICAS, ModelCluster
from k2k_assets_tests.support.model_broker.coordinator import CONCURRENT, NOBODY, Partition, Producer
from k2k_assets_tests.support.model_broker.server import ModelBroker
from k2k_assets_tests.support.suite.properties import examples

PARTITIONS = 2
# Nothing is ever written there: what is answered to an attempt tells where the transaction is.
PROBED = PARTITIONS
NEVER_GIVEN = Producer(2**40, 0)
"""An identity that no broker has given to anybody."""
PASSING = {14, 15, 16, NOT_ENOUGH_REPLICAS, CONCURRENT}
"""The coordinator is not there yet, or busy with the end before: the request was not executed."""


@dataclass(frozen=True)
class Step:
    """One request, in terms of what both brokers have told before.

    Attributes:
        kind: init, join, produce or end.
        version: Of Produce or EndTxn.
        partition: Where.
        back: Of whom: 0 the newest identity, 1 the one before it, and so on.
        shift: Added to the sequence that is due.
        count: Records of the batch.
        commits: Whether the end commits.
    """

    kind: str
    version: int = 0
    partition: int = 0
    back: int = 0
    shift: int = 0
    count: int = 1
    commits: bool = True


BACK = st.sampled_from([0, 0, 0, 0, 1, 2])
JOINS = st.builds(Step, st.just("join"), partition=st.integers(0, PARTITIONS - 1), back=BACK)


def histories(produce: Sequence[int], ends: Sequence[int]) -> st.SearchStrategy[list[Step]]:
    """Requests in any order, mostly by who may ask them.

    Args:
        produce: Versions of Produce.
        ends: Versions of EndTxn.
    """
    end = st.builds(Step, st.just("end"), st.sampled_from(ends), back=BACK, commits=st.booleans())
    write = st.builds(
        Step,
        st.just("produce"),
        st.sampled_from(produce),
        st.integers(0, PARTITIONS - 1),
        BACK,
        st.sampled_from([0, 0, 0, 0, 0, 1, -1, -6]),
        st.integers(1, 3),
    )
    return st.lists(st.one_of(st.just(Step("init")), JOINS, write, write, write, end, end), min_size=5, max_size=25)


class Side:
    """One of the two brokers, with what it has told.

    Args:
        asking: The connection to it.
        topic: Its topic.
    """

    def __init__(self, asking: Asking, topic: str) -> None:
        self._asking, self._topic = asking, topic
        self.topic_id = asking.topic_id(topic)
        self.known: list[Producer] = []

    def do(self, step: Step, sequence: int, value: bytes) -> Answered:
        """Sends the request of a step."""
        producer = self.known[-1 - step.back] if step.back < len(self.known) else NEVER_GIVEN
        at = self._topic, step.partition
        if step.kind == "init":
            return self._asking.init()
        if step.kind == "join":
            return self._asking.join(producer, [at])
        if step.kind == "end":
            return self._asking.end(step.version, producer, step.commits)
        content = _batch(producer, sequence, value, step.count)
        return self._asking.produce(step.version, at, self.topic_id, content)

    def ends_at(self, partition: Partition, offset: int) -> bool:
        """Whether a log ends there."""
        return self._asking.end_offset(partition) == offset

    def await_end(self, producer: Producer) -> None:
        """Waits until a transaction is ended for its coordinator too: its markers alone do not tell that."""
        content, at = _batch(producer, 0, b"", 1), (self._topic, PROBED)

        def is_ended() -> bool:
            return self._asking.produce(11, at, self.topic_id, content).error not in PASSING

        wait_until(is_ended, SECONDS, "the transaction is ended", 0.002)

    def learn(self, found: Answered) -> None:
        """Notes an identity that it was given."""
        if found.producer != NOBODY:
            self.known.append(found.producer)


def _batch(producer: Producer, sequence: int, value: bytes, count: int) -> bytes:
    """So many records of the same value."""
    batch = packed([(None, value, (), time.time_ns() // 1_000_000)] * count, codec=0)
    return stamped(batch, *producer, sequence, is_transactional=True) + batch.payload


class Comparison:
    """Asks both the same."""

    def __init__(self, model: Side, real: Side, cluster: ModelCluster, servers: str, topic: str) -> None:
        self._model, self._real, self._cluster, self._servers, self._topic = model, real, cluster, servers, topic
        self._sequences: dict[tuple[int, int, int], int] = {}
        self._numbers: dict[int, int] = {}
        self.log: list[str] = []

    def do(self, step: Step, number: int) -> None:
        """Sends one request to both, and compares the answers."""
        known = self._model.known
        producer = known[-1 - step.back] if step.back < len(known) else NEVER_GIVEN
        due = self._sequences.get((*producer, step.partition), 0)
        sequence = max(0, due + step.shift)
        value = b"%d" % number
        expected = self._model.do(step, sequence, value)
        self.log.append(f"{step} by {tuple(producer)} at {sequence}: {self._comparable(expected, self._model)}")
        found = self._asked_until_settled(step, sequence, value, expected)
        assert self._comparable(found, self._real) == self._comparable(expected, self._model), "\n".join(self.log)
        self._model.learn(expected)
        self._real.learn(found)
        if step.kind == "produce" and not expected.error and sequence == due:
            self._sequences[(*producer, step.partition)] = due + step.count

    def _asked_until_settled(self, step: Step, sequence: int, value: bytes, expected: Answered) -> Answered:
        """The real broker's answer, once the end before it has been carried out, as it is at once in the model."""
        deadline = Deadline(SECONDS)
        while True:
            found = self._real.do(step, sequence, value)
            if found.error == expected.error or found.error not in PASSING or deadline.expired():
                break
            time.sleep(0.005)
        self._await_log()
        if step.kind == "end" and not found.error:
            known = self._real.known
            self._real.await_end(found.producer if found.producer != NOBODY else known[-1 - step.back])
        return found

    def _await_log(self) -> None:
        for partition, log in self._cluster.logs.items():
            is_there = partial(self._real.ends_at, partition, log.end)
            what = "\n".join([f"the real log of {partition} to end at {log.end}", *self.log])
            wait_until(is_there, SECONDS, what, interval=0.002)

    def _comparable(self, found: Answered, side: Side) -> tuple[int, int, tuple[int, int]]:
        """With producer ids by the order in which they came: each broker has its own."""
        ids = list(dict.fromkeys(each.producer_id for each in [*side.known, found.producer] if each != NOBODY))
        number = ids.index(found.producer.producer_id) if found.producer != NOBODY else -1
        return found.error, found.base, (number, found.producer.epoch)

    def ensure_same_content(self) -> None:
        """Compares what readers of committed records see."""
        for index in range(PARTITIONS):
            expected = self._cluster.values((self._topic, index))
            seen = [each.value for each in read_all(self._servers, self._topic) if each.partition == index]
            assert seen == expected


def _compare(servers: str, steps: list[Step]) -> None:
    topic, name = create_topic(servers, unique("model"), PARTITIONS + 1), unique("id")
    cluster = ModelCluster({topic: PARTITIONS + 1})
    with ModelBroker(cluster) as model, Asking(model.servers, name) as one, Asking(servers, name) as other:
        wait_until(lambda: not other.find(), SECONDS, "the coordinator is there")
        comparison = Comparison(Side(one, topic), Side(other, topic), cluster, servers, topic)
        for number, step in enumerate([Step("init"), *steps]):
            comparison.do(step, number)
        for last in (Step("init"), Step("init")):  # the first one may abort what is open
            comparison.do(last, -1)
        comparison.ensure_same_content()


# A batch of an earlier epoch inside a transaction: it must not count as the first one of a producer.
STALE_INSIDE = [Step("init"), *(Step("produce", 11, 1, back, 0, 1) for back in (0, 1, 0))]


@pytest.mark.integration
@examples(15)
@example(STALE_INSIDE)
@given(histories(produce=[11, 12, 13], ends=[4, 5]))
def test_the_same_requests_have_the_same_answers(clusters: KafkaSandbox, steps: list[Step]) -> None:
    _compare(clusters.target_servers, steps)


@pytest.fixture(scope="module")
def older_servers() -> Iterator[str]:
    with KafkaSandbox(version="3.9.2") as found:
        yield found.target_servers


@pytest.mark.integration
@pytest.mark.slow
@examples(15)
@example(STALE_INSIDE)
@given(histories(produce=[9, 10, 11], ends=[3, 4]))
def test_an_older_broker_answers_likewise(older_servers: str, steps: list[Step]) -> None:
    _compare(older_servers, steps)
