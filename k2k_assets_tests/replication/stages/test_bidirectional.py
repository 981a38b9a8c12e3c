"""Both ways at once, on topics of the same names: no echo, no loss, exact mappings with what was dropped."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.both_ways import (
    MARKER,
    assert_mapped_or_dropped,
    assert_no_echo_and_no_loss,
    both_ways,
    settle,
    write_some,
)
from k2k_assets_tests.support.copies.copying import Running, commit_records, copy, dying_first, in_processes
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline, of_small_transactions

pytestmark = pytest.mark.integration


def topic_on_both(clusters: KafkaSandbox, partitions: int = 1) -> str:
    topic = unique("shared")
    create_topic(clusters.source_servers, topic, partitions)
    return create_topic(clusters.target_servers, topic, partitions)


@MODES
@pytest.mark.parametrize("marker", ["pipeline", "cluster"])
@pytest.mark.parametrize(
    "own", [pytest.param("enabled", id="headers", marks=pytest.mark.slow), pytest.param("disabled", id="no headers")]
)
def test_both_sides_get_every_record_once(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, marker: str, own: str
) -> None:
    topic = topic_on_both(clusters, 2)
    ways = both_ways(clusters, tmp_path, [topic], mode, marker, features={"headerReplication": own})
    values = [value for n, way in enumerate(ways) for value in write_some(way, topic, f"first{n}", 40, 2)]
    settle(ways)
    values += [value for n, way in enumerate(ways) for value in write_some(way, topic, f"second{n}", 30, 2)]
    settle(ways)

    assert_no_echo_and_no_loss(ways, topic, values)
    for way in ways:
        assert assert_mapped_or_dropped(way, topic) == 70
        (last,) = {r.position for r in commit_records(way.pipeline, way.target)[-1:]}
        assert last > 0
    value = {"pipeline": ways[0].pipeline.name.encode()}
    for way in ways:
        copies = [r for r in read_all(way.target, topic) if MARKER in dict(r.headers)]
        assert len(copies) == 70
        for record in copies:
            own_headers = [("own", record.value)] if own == "enabled" else []
            assert record.headers[:-1] == own_headers
            assert marker == "cluster" or record.headers[-1] == (MARKER, value[marker])


def test_the_marker_has_the_name_of_the_file(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = topic_on_both(clusters)
    ways = both_ways(clusters, tmp_path, [topic], bidirectional={"headers": {"bidirectional": "came-from"}})
    values = [value for n, way in enumerate(ways) for value in write_some(way, topic, f"side{n}", 10)]
    settle(ways)
    for way in ways:
        found = read_all(way.target, topic)
        assert sorted(record.value or b"" for record in found) == sorted(values)
        names = [[name for name, _ in record.headers] for record in found]
        assert sum("came-from" in each for each in names) == 10
        assert not any(MARKER in each for each in names)


def test_a_stretch_of_echoes_alone_is_committed_and_nothing_else_is_written(
    clusters: KafkaSandbox, tmp_path: Path
) -> None:
    topic = topic_on_both(clusters)
    forth, back = both_ways(clusters, tmp_path, [topic])
    write_some(forth, topic, "a", 25)
    copy(forth.pipeline)
    assert copy(back.pipeline).topics[topic].lag == 0
    assert len(read_all(forth.source, topic)) == 25
    last = commit_records(back.pipeline, back.target)[-1]
    assert (last.records, last.dropped, last.position) == (0, 25, 26)
    assert assert_mapped_or_dropped(back, topic) == 25


@MODES
def test_records_of_others_between_the_copies_stop_nothing(clusters: KafkaSandbox, tmp_path: Path, mode: str) -> None:
    """On the same topic names they are those that were written there."""
    topic = topic_on_both(clusters)
    forth, back = both_ways(clusters, tmp_path, [topic], mode)
    values = []
    for n in range(3):
        values += write_some(forth, topic, f"a{n}", 10)
        values += write_some(back, topic, f"b{n}", 5)
        assert copy(forth.pipeline).stopped == {}
    settle((back, forth), rounds=1)
    assert_no_echo_and_no_loss((forth, back), topic, values)
    assert_mapped_or_dropped(forth, topic)
    assert_mapped_or_dropped(back, topic)


def test_on_foreign_writer_fail_is_obeyed_where_it_is_asked_for(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = topic_on_both(clusters)
    forth, back = both_ways(clusters, tmp_path, [topic], errorHandling={"onForeignWriter": "fail"})
    write_some(forth, topic, "a", 5)
    copy(forth.pipeline)
    write_some(back, topic, "b", 5)
    write_some(forth, topic, "more", 5)
    assert topic in copy(forth.pipeline).stopped


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("step", ["write", "settle", "write_control", "commit"])
def test_one_way_is_killed_amid_records_and_echoes(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, step: str
) -> None:
    topic = topic_on_both(clusters)
    ways = both_ways(clusters, tmp_path, [topic], mode, **of_small_transactions(20))
    forth, back = ways
    values: list[bytes] = []
    for n in range(4):
        values += write_some(forth, topic, f"a{n}", 30)
        copy(forth.pipeline)
        values += write_some(back, topic, f"b{n}", 30)
    outcome = copy(back.pipeline, cores=1, runner=dying_first(step, 3))
    assert outcome.topics[topic].lag == 0
    settle(ways)
    assert_no_echo_and_no_loss(ways, topic, values, once=mode == "enabled")
    assert_mapped_or_dropped(forth, topic)
    assert assert_mapped_or_dropped(back, topic) >= 120


@pytest.mark.slow
@MODES
def test_both_run_and_are_killed_again_and_again(clusters: KafkaSandbox, tmp_path: Path, mode: str) -> None:
    topic = topic_on_both(clusters, 2)
    ways = both_ways(clusters, tmp_path, [topic], mode, coordination={
        "commit": {"topic": unique("commits"), "batchSize": 50, "syncTimeout": "11 minutes"},
        "assignment": {"topic": unique("claims"), "graceWindow": "2 seconds"},
    })  # fmt: skip
    values: list[bytes] = []
    stop = threading.Event()

    def traffic() -> None:
        number = 0
        while not stop.wait(0.05):
            for n, way in enumerate(ways):
                values.extend(write_some(way, topic, f"{'ab'[n]}{number}", 6, 2))
            number += 1

    writer = threading.Thread(target=traffic)
    writer.start()
    runners = [in_processes() for _ in ways]
    running = [Running(way.pipeline, 1, runner[0]) for way, runner in zip(ways, runners, strict=True)]
    try:
        for one, runner in zip((*running, *running), (*runners, *runners), strict=True):
            before = one.copied()
            wait_until(lambda one=one, before=before: one.copied() != before or one.error, 120, "copying")  # type: ignore[misc]
            runner[1]()
    finally:
        stop.set()
        writer.join()
        wanted = len(values)

        def is_everywhere() -> bool:
            return all(len({r.value for r in read_all(way.target, topic)}) == wanted for way in ways)

        try:
            wait_until(is_everywhere, 120, "all records to be on both sides")
        finally:
            for one in running:
                one.end()
    settle(ways)  # an instance that was beginning anew has left copies that are made again, and come back
    assert_no_echo_and_no_loss(ways, topic, values, once=mode == "enabled")
    for way in ways:
        assert_mapped_or_dropped(way, topic)


def test_three_clusters_in_a_ring_of_two_need_the_markers_of_all(clusters: KafkaSandbox, tmp_path: Path) -> None:
    """A second pair of topics stands for a third cluster's way: markers of former copies are carried on."""
    topic = topic_on_both(clusters)
    forth, _ = both_ways(clusters, tmp_path, [topic], marker="cluster")
    produce(forth.source, topic, [Record(b"k", b"v", [(MARKER, b"another-cluster"), ("own", b"x")])])
    copy(forth.pipeline)
    (record,) = read_all(forth.target, topic)
    assert [name for name, _ in record.headers] == [MARKER, MARKER]
    assert record.headers[0] == (MARKER, b"another-cluster")


def test_without_the_feature_nothing_is_marked_or_dropped(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("plain"))
    pipeline = make_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic])
    produce(clusters.source_servers, topic, [Record(b"k", b"v", [(MARKER, pipeline.name.encode())])])
    copy(pipeline)
    (record,) = read_all(clusters.target_servers, topic)
    assert record.headers == []
