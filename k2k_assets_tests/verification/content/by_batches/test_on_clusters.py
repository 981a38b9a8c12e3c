"""By batches on two real clusters: all that is the same is proven, and each difference is found at its offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from k2k_assets.control.assignment_records import settings_key, settings_value
from k2k_assets.control.assignment_writing import write_record
from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.content import check
from k2k_assets.verification.verdict import Judgement, Verdict
from k2k_assets_tests.support.brokers.batches import PackedRecord, pack_batch
from k2k_assets_tests.support.brokers.kafka import add_partitions, create_topic, produce, set_config, unique
from k2k_assets_tests.support.brokers.raw_records import produce_batch
from k2k_assets_tests.support.copies.hand_copy import hand_copy
from k2k_assets_tests.verification.world import NOW, RECORDS, World

pytestmark = [pytest.mark.integration, pytest.mark.spark]

COUNT, WRONG = 2500, 1700
GZIP = 1
HEADERS = ((b"a", b"1"), (b"b", b"2"))
GOOD = [PackedRecord(0, b"k%d" % n, b"value %d" % n, HEADERS, n // 10) for n in range(COUNT)]
Run = tuple[int, int, int]


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not proven in time is left to records: on a busy machine too much would be."""
    monkeypatch.setattr(check, "SECONDS", 300.0)


def _write(servers: str, topic: str, partition: int, records: Sequence[PackedRecord], size: int, codec: int) -> None:
    for at in range(0, len(records), size):
        some = records[at : at + size]
        first = some[0].later
        packed = [each._replace(delta=n, later=each.later - first) for n, each in enumerate(some)]
        latest = NOW + max(each.later for each in some)
        batch = pack_batch(0, packed, attributes=codec, epoch=-1, timestamp=NOW + first, latest=latest)
        produce_batch(servers, topic, partition, batch)


def _with(record: PackedRecord) -> list[PackedRecord]:
    return [*GOOD[:WRONG], record, *GOOD[WRONG + 1 :]]


ONE = GOOD[WRONG]
ONE_TO_ONE = [(0, 0, COUNT)]
SWAPPED = [*GOOD[:WRONG], GOOD[WRONG + 1], GOOD[WRONG], *GOOD[WRONG + 2 :]]
COPIES: dict[str, tuple[list[PackedRecord], list[Run], list[tuple[int | None, int | None]]]] = {
    # what is wrong: the copies, their mappings, and source and target offset of each offender
    "nothing": (GOOD, ONE_TO_ONE, []),
    "a byte of the key": (_with(ONE._replace(key=b"K%d" % WRONG)), ONE_TO_ONE, [(WRONG, WRONG)]),
    "a byte of the value": (_with(ONE._replace(value=b"Value %d" % WRONG)), ONE_TO_ONE, [(WRONG, WRONG)]),
    "a byte of a header": (_with(ONE._replace(headers=((b"a", b"1"), (b"b", b"3")))), ONE_TO_ONE, [(WRONG, WRONG)]),
    "the timestamp": (_with(ONE._replace(later=ONE.later + 1)), ONE_TO_ONE, [(WRONG, WRONG)]),
    "the order of headers": (_with(ONE._replace(headers=HEADERS[::-1])), ONE_TO_ONE, [(WRONG, WRONG)]),
    "a swapped pair": (SWAPPED, ONE_TO_ONE, [(WRONG, WRONG), (WRONG + 1, WRONG + 1)]),
    "a missing record": (
        [*GOOD[:WRONG], *GOOD[WRONG + 1 :]],
        [(0, 0, WRONG), (WRONG + 1, WRONG, COUNT - WRONG - 1)],
        [(WRONG, None)],
    ),
    "a doubled record": (
        [*GOOD[:WRONG], GOOD[WRONG - 1], *GOOD[WRONG:]],
        [(0, 0, WRONG), (WRONG, WRONG + 1, COUNT - WRONG)],
        [(None, WRONG)],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("size", "codec"), [(500, 0), (230, GZIP)], ids=["cut alike", "cut differently"])
def test_each_difference_is_found_and_all_the_rest_is_proven(world: World, size: int, codec: int) -> None:
    """Each partition has another fault."""
    source, target = world.clusters.source_servers, world.clusters.target_servers
    for servers in (source, target):
        add_partitions(servers, world.topic, len(COPIES))
    settings = replace(CopySettings.of(world.hand.pipeline), alone=True)
    pipeline = world.hand.pipeline
    write_record(pipeline, settings_key(pipeline.group, settings.fingerprint), settings_value(settings))
    for partition, (copies, runs, _) in enumerate(COPIES.values()):
        _write(source, world.topic, partition, GOOD, 500, 0)
        _write(target, world.topic, partition, copies, size, codec)
        world.hand.mapping(world.topic, (0, COUNT), runs, partition=partition, settings=settings)
        world.hand.commit(world.topic, COUNT, partition=partition)
    verdict = world.verdict("content")
    assert verdict.judgement is Judgement.FAILED
    found = {(o.topic, o.partition, o.source_offset, o.target_offset) for o in verdict.offenders}
    assert found == {
        (world.topic, partition, *place)
        for partition, (_, _, offenders) in enumerate(COPIES.values())
        for place in offenders
    }
    # Behind each fault a thousand records are left to the other comparison, with those beside them.
    left = (len(COPIES) - 1) * 1002
    assert verdict.counts["equal"] == COUNT * len(COPIES) - 8, verdict.counts
    assert COUNT * len(COPIES) - left <= verdict.counts["by_batches"] < COUNT * len(COPIES), verdict
    assert "records compared by batches" in verdict.way
    assert ("(0 % of them lie in equal batches" in verdict.way) == (codec == GZIP), verdict.way
    by_partition = {each.partition: each for each in verdict.verified}
    assert by_partition[0].looked_at == COUNT


def _wholly_proven(verdict: Verdict, records: int) -> None:
    assert verdict.passed, verdict
    assert (verdict.counts["equal"], verdict.counts["by_batches"]) == (records, records), verdict.way
    assert "compared by records" not in verdict.way


@pytest.mark.slow
def test_markers_and_aborted_records_on_both_sides_are_no_doubt(world: World) -> None:
    """And all that is new is proven by the next evaluation, from the last verified record on."""
    source, target = world.clusters.source_servers, world.clusters.target_servers
    world.source(RECORDS[:3])
    produce(source, world.topic, [b"never"] * 2, partition=0, abort=True)
    written = produce(source, world.topic, RECORDS[3:6], partition=0, transactional_id=unique("theirs"))
    produce(target, world.topic, RECORDS[:3], partition=0, transactional_id=unique("ours"))
    produce(target, world.topic, [b"never"], partition=0, abort=True)
    copies = produce(target, world.topic, RECORDS[3:6], partition=0, transactional_id=unique("ours"))
    first, to = written[0][1], copies[0][1]
    world.mapped((0, 0, 3), (first, to, 3), end=first + 4)
    _wholly_proven(world.verdict("content"), 6)
    (last,) = world.source(RECORDS[6:7])
    world.hand.mapping(world.topic, (first + 4, last + 1), [(last, world.target(RECORDS[6:7])[0], 1)])
    world.hand.commit(world.topic, last + 1)
    _wholly_proven(world.verdict("content"), 7)


@pytest.mark.slow
def test_timestamps_of_a_broker_are_compared_by_records_and_the_check_says_so(world: World) -> None:
    set_config(world.clusters.target_servers, world.topic, "message.timestamp.type", "LogAppendTime")
    world.source()
    world.target()
    world.mapped((0, 0, 10))
    verdict = world.verdict("content")
    assert verdict.passed
    assert (verdict.counts["equal"], verdict.counts["by_batches"]) == (10, 0)
    assert verdict.way.startswith("10 records compared by records; not by batches: ")
    assert "a broker has set the timestamps" in verdict.way


@pytest.mark.slow
def test_settings_that_a_client_for_batches_does_not_know_leave_it_to_records(
    clusters: KafkaSandbox, spark: SparkSession, tmp_path: Path
) -> None:
    topic = unique("orders")
    for servers in (clusters.source_servers, clusters.target_servers):
        create_topic(servers, topic)
    world = World(clusters, topic, hand_copy(clusters, tmp_path, topic, consumer={"client.rack": "r1"}), spark)
    world.source()
    world.target()
    world.mapped((0, 0, 10))
    verdict = world.verdict("content")
    assert verdict.passed
    assert verdict.counts["by_batches"] == 0
    assert "not by batches: source: the property client.rack is not understood by it" in verdict.way


@pytest.mark.slow
def test_a_partition_of_which_all_was_aborted_has_no_mappings_and_does_no_harm(world: World) -> None:
    source = world.clusters.source_servers
    for servers in (source, world.clusters.target_servers):
        add_partitions(servers, world.topic, 2)
    world.source()
    world.target()
    world.mapped((0, 0, 10))
    produce(source, world.topic, [b"never"] * 2, partition=1, abort=True)
    world.hand.mapping(world.topic, (0, 3), [], partition=1)
    world.hand.commit(world.topic, 3, partition=1)
    _wholly_proven(world.verdict("content"), 10)
