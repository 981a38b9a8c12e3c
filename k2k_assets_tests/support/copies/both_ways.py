"""Two pipelines, one each way, between topics of the same names; and what must be true of both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets_tests.support.brokers.groups import commit
from k2k_assets_tests.support.brokers.kafka import ReadRecord, Record, create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import copy, mapped_offsets
from k2k_assets_tests.support.copies.pipelines import mapping_pipeline

MARKER = "__k2k_bidirectional"


class TwoClusters(Protocol):
    """Where two clusters are, as a `KafkaSandbox` says."""

    @property
    def source_servers(self) -> str: ...

    @property
    def target_servers(self) -> str: ...


@dataclass(frozen=True)
class OneWay:
    """A pipeline, and the clusters that it copies between."""

    path: Path
    pipeline: Pipeline
    source: str
    target: str


def both_ways(
    clusters: TwoClusters, directory: Path, topics: list[str], mode: str = "enabled", marker: str = "pipeline",
    back_mode: str = "", **rest: Any,
) -> tuple[OneWay, OneWay]:  # fmt: skip
    """The pipeline from source to target, and the one back.

    Args:
        clusters: Both clusters.
        directory: For the files.
        topics: On both.
        mode: `features.exactlyOnce`.
        marker: `bidirectional.mode`.
        back_mode: `features.exactlyOnce` of the second one, if it is another.
        rest: More features in `features`, and sections of both files.
    """
    features = {"bidirectionalReplication": "enabled", **rest.pop("features", {})}
    if marker == "pipeline":
        rest["name"] = unique("both")
    # As documented: source and target exchanged, all else the same; so each finds the other's mappings.
    names = unique("control")
    coordination = rest.pop("coordination", {})
    rest["coordination"] = {
        kind: {"topic": f"{names}-{kind}", **coordination.get(kind, {})} for kind in ("commit", "assignment")
    }
    rest.setdefault("offsetMapping", {"topic": f"{names}-mappings"})
    bidirectional = {"mode": marker, **rest.pop("bidirectional", {})}
    ways: list[OneWay] = []
    for source, target in (
        (clusters.source_servers, clusters.target_servers),
        (clusters.target_servers, clusters.source_servers),
    ):
        path, pipeline = mapping_pipeline(
            directory, source, target, topics, back_mode if ways and back_mode else mode,
            features=features, bidirectional=bidirectional, index=f"index-{len(ways)}", **rest,
        )  # fmt: skip
        ways.append(OneWay(path, pipeline, source, target))
    return ways[0], ways[1]


def topic_on_both(clusters: TwoClusters) -> str:
    topic = create_topic(clusters.source_servers, unique("shared"))
    return create_topic(clusters.target_servers, topic)


def interleave(ways: tuple[OneWay, OneWay], topic: str, turns: int = 3) -> None:
    """Records of both sides, copied at different times, so that the two logs order them differently."""
    forth, back = ways
    for turn in range(turns):
        write_some(forth, topic, f"a{turn}", 5)
        copy(forth.pipeline)
        write_some(back, topic, f"b{turn}", 5)
        write_some(forth, topic, f"c{turn}", 3)
        copy(back.pipeline)


def groups_everywhere(servers: str, topic: str) -> dict[str, int]:
    """A group at each offset."""
    prefix = unique("standing")
    last = max(record.offset for record in read_all(servers, topic))
    standing = {f"{prefix}-{at}": at for at in range(last + 2)}
    for group, at in standing.items():
        commit(servers, group, {TopicPartition(topic, 0): at})
    return standing


def prefix_of(groups: Iterable[str]) -> str:
    return next(iter(groups)).rsplit("-", 1)[0]


def again_and_skipped(
    here: list[ReadRecord], there: list[ReadRecord], at: int, offset: int
) -> tuple[int, list[bytes | None]]:
    """How many records a group reads again, and which it skips.

    Args:
        here: What the topic holds where the group goes on.
        there: What it holds where the group has read.
        at: The group's position there.
        offset: Its position here.
    """
    read = {record.value for record in there if record.offset < at}
    again = sum(record.value in read for record in here if record.offset >= offset)
    return again, [record.value for record in here if record.offset < offset and record.value not in read]


def left_behind(here: list[ReadRecord], there: list[ReadRecord], at: int, offset: int) -> list[bytes | None]:
    """Records that a group has not read, and that lie below its position for the last time."""
    last = {record.value: record.offset for record in here}
    read = {record.value for record in there if record.offset < at}
    return [value for record in there if (value := record.value) not in read and last[value] < offset]


def of_groups(way: OneWay, prefix: str) -> Pipeline:
    """A pipeline of two, with the groups whose names begin with a prefix, and a short pause between polls."""
    path = way.path.with_name(f"{unique('groups')}.yaml")
    groups = f"groups:\n  consumerGroups: '{prefix}.*'\n  pollInterval: 200 milliseconds\n"
    path.write_text(way.path.read_text() + groups)
    return load_pipeline([path])


def settle(ways: Iterable[OneWay], rounds: int = 2) -> None:
    """Copies both ways, and once more: then nothing is left that could come back."""
    for _ in range(rounds):
        for way in ways:
            assert copy(way.pipeline).stopped == {}


def write_some(way: OneWay, topic: str, name: str, count: int, partitions: int = 1) -> list[bytes]:
    """Writes records on the source of a pipeline; returns their values."""
    values = [f"{name}-{n}".encode() for n in range(count)]
    for partition in range(partitions):
        mine = values[partition::partitions]
        produce(way.source, topic, [Record(value, value, [("own", value)]) for value in mine], partition)
    return values


def assert_no_echo_and_no_loss(ways: tuple[OneWay, OneWay], topic: str, values: list[bytes], once: bool = True) -> None:
    """Both sides hold every record, each once; in the order of the side where it was written.

    Args:
        ways: Both pipelines.
        topic: The topic.
        values: All values that were ever written, those of one partition and side in order.
        once: Whether copies may not be there a second time.
    """
    for way in ways:
        read = read_all(way.source, topic)
        found = [record.value for record in read]
        written_here = [record for record in read if not marks(record.headers)]
        assert len({record.value for record in written_here}) == len(written_here)
        assert set(found) == set(values)
        assert not once or len(found) == len(values)
        for mine, other in ((way, ways[1 - ways.index(way)]),):
            for partition in {record.partition for record in read}:
                copies = [r.value for r in read if r.partition == partition and marks(r.headers)]
                origins = read_all(other.source, topic)
                originals = [r.value for r in origins if r.partition == partition and not marks(r.headers)]
                assert list(dict.fromkeys(copies)) == originals, mine


def marks(headers: Iterable[tuple[str, bytes | None]]) -> list[bytes | None]:
    """The values of the markers."""
    return [value for name, value in headers if name == MARKER]


def assert_mapped_or_dropped(way: OneWay, topic: str) -> int:
    """Each source record is mapped once to its copy, or lies in one dropped range if it is a copy itself.

    Returns:
        How many records were dropped.
    """
    there = {(r.partition, r.offset): r for r in read_all(way.target, topic)}
    mapped = mapped_offsets(way.pipeline, way.target, topic)
    read = {(r.partition, r.offset): r for r in read_all(way.source, topic)}
    echoes = {at for at, record in read.items() if marks(record.headers)}
    assert mapped.copies.keys() == read.keys() - echoes
    assert mapped.dropped.keys() & read.keys() == echoes
    assert set(mapped.dropped.values()) <= {"marker"}
    assert {at: there[to].value for at, to in mapped.copies.items()} == {at: read[at].value for at in mapped.copies}
    return len(echoes)
