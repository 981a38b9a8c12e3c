"""The comparison of groups' positions counts correctly: R and S by content, and reads back what it wrote."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

pytest.importorskip("psutil")

from benchmarks.offsets.content import Content, Error, Follower, error_of
from benchmarks.offsets.plan import KINDS, PARTITIONS, Kind
from benchmarks.offsets.positions import Member, commit, held, watch
from benchmarks.offsets.results import HEADERS, rows
from benchmarks.offsets.rounds import Phase, Sample
from benchmarks.offsets.traffic import Writer
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, unique

# Markers at 3 and 6; on the target at 1 and 4.
SOURCE = Content(array("q", [0, 1, 2, 4, 5, 7]), array("q", range(6)))
TARGET = Content(array("q", [0, 2, 3, 5, 6, 7]), array("q", range(6)))


@pytest.mark.parametrize(
    ("position", "answer", "expected"),
    [
        pytest.param(0, 0, Error(0, 0), id="all unread"),
        pytest.param(8, 8, Error(0, 0), id="all read"),
        pytest.param(3, 5, Error(0, 0), id="at a marker"),
        pytest.param(3, 4, Error(0, 0), id="at a marker there, too"),
        pytest.param(3, 3, Error(1, 0), id="one again"),
        pytest.param(3, 6, Error(0, 1), id="one skipped"),
        pytest.param(8, 0, Error(6, 0), id="all again"),
        pytest.param(0, 8, Error(0, 6), id="all skipped"),
    ],
)
def test_records_read_again_and_skipped(position: int, answer: int, expected: Error) -> None:
    assert error_of(SOURCE, position, TARGET, answer) == expected


def test_a_record_copied_twice_is_counted_again_only_where_it_had_been_read() -> None:
    twice = Content(array("q", range(8)), array("q", [0, 1, 2, 2, 3, 4, 5, 5]))

    assert error_of(SOURCE, 3, twice, 3) == Error(1, 0)
    assert error_of(SOURCE, 3, twice, 2) == Error(2, 0)
    assert error_of(SOURCE, 3, twice, 4) == Error(0, 0)


def test_positions_have_the_lag_that_is_asked_for() -> None:
    for lag in range(len(SOURCE.offsets) + 1):
        assert len(SOURCE.from_position(SOURCE.position(lag, 9))) == lag
    assert SOURCE.position(0, 9) == 9
    assert SOURCE.position(3, 9) == 3, "the offset after the last record that was read: a marker's"
    with pytest.raises(ValueError, match="a lag of 7"):
        SOURCE.position(7, 9)


def test_the_table_tells_untranslated_and_skipped() -> None:
    def sample(lag: int, phase: Phase, error: Error | None, seconds: float | None) -> Sample:
        return Sample("a", KINDS[0], lag, phase, error, seconds)

    samples = [
        sample(0, Phase.START, Error(9, 0), None),
        sample(0, Phase.LIVE, Error(1, 0), 0.5),
        sample(0, Phase.LIVE, Error(2, 7), 1.5),
        sample(0, Phase.IDLE, None, None),
        sample(10, Phase.IDLE, None, None),
    ]

    assert rows(samples, {"a": "A"}) == [
        ["A", "plain", "0", "2 / 2 / 2", "-", "9 / 9 / 9", "7 in 1 of 4", "1 of 4", "1.0 / 1.0 / 1.5", "1 of 3"],
        ["A", "plain", "10", "-", "-", "-", "0", "1 of 1", "-", "1 of 1"],
    ]
    assert len(rows(samples, {"a": "A"})[0]) == len(HEADERS)


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize("transactional", [False, True])
def test_what_is_written_is_read_back_and_committed_positions_are_seen(
    clusters: KafkaSandbox, transactional: bool
) -> None:
    topic = create_topic(clusters.source_servers, unique("bench"), PARTITIONS)
    cluster = Cluster("source", {"bootstrap.servers": clusters.source_servers})
    kind = Kind("any", topic, transactional)
    writer = Writer(clusters.source_servers, kind)
    # Transactions of live writing are small: some of them are aborted.
    writer.write([150, 140, 130, 120], 30, rate=5000)
    last = {TopicPartition(topic, partition): number for partition, number in enumerate(writer.last)}
    with cluster, Follower(cluster, [topic]) as follower:
        follower.read_to(last, 30, lambda: None)
        ends = cluster.offsets(last, "stable")
        group = kind.group(10)
        wanted = {Member(group, at): content.position(10, ends[at]) for at, content in follower.contents.items()}
        commit(cluster, wanted)
        held(cluster, [group], [topic])  # its process starts, which may take as long as the offsets have to stay
        seen = watch(cluster, [group], [topic], {}, 1.0, lambda: None)

        assert held(cluster, [group], [topic]) == seen.offsets == wanted
    assert seen.moved.keys() == wanted.keys()
    for partition, (records, content) in enumerate(zip(writer.records, follower.contents.values(), strict=True)):
        numbers = np.array(content.numbers)
        assert len(numbers) == records == 150 - 10 * partition
        assert (np.diff(numbers) > 0).all()
        assert (numbers[-1] >= records) == transactional, "the numbers of aborted records are left out"
