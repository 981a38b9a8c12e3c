"""Copies that another tool began, on real clusters: adopted exactly, or refused with what does not fit."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import utc
from k2k_assets.groups.mapper import sync_once
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.translation import OffsetTranslator
from k2k_assets_tests.support.brokers import groups
from k2k_assets_tests.support.brokers.kafka import (
    Record,
    add_partitions,
    create_topic,
    delete_records,
    produce,
    read_all,
    topics,
    unique,
)
from k2k_assets_tests.support.copies.copying import (
    Running,
    commit_records,
    contents,
    copy,
    dying_first,
    mapping_records,
    told,
)
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.copies.tool import run_tool

pytestmark = pytest.mark.integration
# Not older than the brokers' retention: it would remove them in the middle of a test.
NOW = int(time.time() * 1000) - 60_000


class Migration:
    """A topic of two partitions; another tool has copied 30 records of partition 0 and 12 of partition 1."""

    COPIED = (30, 12)
    WRITTEN = (40, 12)

    def __init__(self, clusters: KafkaSandbox, folder: Path, capsys: Any, mode: str = "enabled", **rest: Any) -> None:
        self.source, self.target = clusters.source_servers, clusters.target_servers
        self.topic = create_topic(self.source, unique("moved"), 2)
        create_topic(self.target, self.topic, 2)
        for partition, (written, copied) in enumerate(zip(self.WRITTEN, self.COPIED, strict=True)):
            records = [Record(b"%d" % n, b"%d-%d" % (partition, n), timestamp=NOW + n) for n in range(written)]
            produce(self.source, self.topic, records, partition)
            # The other tool began in the middle, and its offsets are its own.
            produce(self.target, self.topic, records[5:copied], partition)
        self.folder, self._capsys = folder, capsys
        features = {"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"}
        sections = {
            "groups": {"consumerGroups": [unique("readers")]},
            **rest,
        }
        self.path = write_pipeline(folder, self.source, self.target, [self.topic], features=features, **sections)
        self.pipeline: Pipeline = load_pipeline([self.path])

    def table(self, *positions: tuple[int, ...]) -> str:
        rows = "".join(f"{self.topic},{','.join(map(str, row))}\n" for row in positions)
        path = self.folder / f"{unique('table')}.csv"
        wide = any(len(row) > 2 for row in positions)
        path.write_text(f"topic,partition,offset{',target offset' if wide else ''}\n{rows}")
        return str(path)

    def adopt(self, *arguments: str) -> tuple[int, str]:
        return run_tool(self._capsys, self.path, "adopt", *arguments)

    def write(self, partition: int, first: int, count: int) -> None:
        records = [Record(b"%d" % n, b"%d-%d" % (partition, n), timestamp=NOW + n) for n in range(first, first + count)]
        produce(self.source, self.topic, records, partition)

    def values(self, partition: int) -> list[bytes | None]:
        return [r.value for r in read_all(self.target, self.topic) if r.partition == partition]

    def wanted(self, partition: int, end: int) -> list[bytes]:
        return [b"%d-%d" % (partition, n) for n in range(5, end)]

    def translated(self, partition: int, *offsets: int, back: bool = False) -> list[tuple[int | None, str]]:
        with OffsetTranslator.open(self.pipeline) as translator:
            ask = translator.translate_back if back else translator.translate
            return [(row.to_offset, row.state) for row in ask(self.topic, partition, offsets)]


@pytest.fixture
def migration(clusters: KafkaSandbox, tmp_path: Path, capsys: Any, request: pytest.FixtureRequest) -> Migration:
    return Migration(clusters, tmp_path, capsys, getattr(request, "param", "enabled"))


BOTH = pytest.mark.parametrize("migration", ["enabled", "disabled"], indirect=True)
FITS = ((0, 30), (1, 12))


@BOTH
def test_copying_goes_on_behind_it_and_groups_are_moved_where_that_is_proven(migration: Migration) -> None:
    table = migration.table(*FITS)
    code, said = migration.adopt("--table", table)
    assert (code, "2 positions would be adopted; nothing was" in said) == (0, True), said
    assert commit_records_of(migration) == []
    code, said = migration.adopt("--table", table, "--apply", "--reason", "from the old cluster")
    assert (code, "2 positions adopted" in said) == (0, True), said
    records = {r.source.partition: r for r in commit_records_of(migration)}
    assert [(r.position, r.began, r.target_began, r.target_end) for _, r in sorted(records.items())] == [
        (30, 30, 25, 25),
        (12, 12, 7, 7),
    ]
    assert {r.overridden.why for r in records.values() if r.overridden} == {"from the old cluster"}

    # Before anything is copied: what is at the position is known, what is below is not.
    assert migration.translated(0, 0, 29, 30) == [(None, "unknown"), (None, "unknown"), (25, "exact")]
    assert migration.translated(1, 12) == [(7, "exact")]

    outcome = copy(migration.pipeline)
    assert outcome.stopped == {}
    assert outcome.topics[migration.topic].records == 10
    assert migration.values(0) == migration.wanted(0, 40)
    assert migration.values(1) == migration.wanted(1, 12)
    assert migration.translated(0, 29, 30, 35) == [(None, "unknown"), (25, "exact"), (30, "exact")]
    assert migration.translated(0, 3, 24, 25, 30, back=True) == [
        (None, "unknown"), (None, "unknown"), (30, "exact"), (35, "exact"),
    ]  # fmt: skip
    assert migration.translated(1, 11, 12) == [(None, "unknown"), (7, "exact")], "a quiet partition"


def commit_records_of(migration: Migration) -> Sequence[Any]:
    """None if nobody has needed the topic yet."""
    is_there = migration.pipeline.coordination.commit.topic in topics(migration.target)
    return commit_records(migration.pipeline, migration.target) if is_there else []


@BOTH
def test_consumer_groups_of_an_adopted_copy(migration: Migration) -> None:
    (below, at, behind) = names = [unique(name) for name in ("below", "at", "behind")]
    positions = {below: (29, 12), at: (30, 12), behind: (35, 12)}
    for name, where in positions.items():
        groups.commit(
            migration.source, name, {TopicPartition(migration.topic, p): offset for p, offset in enumerate(where)}
        )
    pipeline = load_pipeline([_with_groups(migration, names)])
    assert migration.adopt("--table", migration.table(*FITS), "--apply")[0] == 0
    sync_once(pipeline)
    assert _committed(migration, at) == {0: 25, 1: 7}, "before anything was copied"
    assert copy(pipeline).stopped == {}
    sync_once(pipeline)
    assert _committed(migration, at) == {0: 25, 1: 7}
    assert _committed(migration, behind) == {0: 30, 1: 7}
    assert _committed(migration, below) == {1: 7}, "where it stands in the adopted copy nobody knows"


def _with_groups(migration: Migration, names: list[str]) -> Path:
    import yaml

    document = yaml.safe_load(migration.path.read_text())
    document["groups"] = {"consumerGroups": names}
    migration.path.write_text(yaml.safe_dump(document))
    return migration.path


def _committed(migration: Migration, name: str) -> dict[int, int]:
    found = groups.held(migration.target, name)
    return {tp.partition: offset for tp, (offset, _) in found.items() if tp.topic == migration.topic}


@BOTH
@pytest.mark.parametrize("step", ["begin", "before_commit"])
def test_a_first_slot_that_is_killed(migration: Migration, step: str) -> None:
    assert migration.adopt("--table", migration.table(*FITS), "--apply")[0] == 0
    assert copy(migration.pipeline, cores=1, runner=dying_first(step, 3)).stopped == {}
    found = migration.values(0)
    if migration.pipeline.features.exactly_once:
        assert found == migration.wanted(0, 40)
    else:
        assert list(dict.fromkeys(found)) == migration.wanted(0, 40)
    assert migration.translated(0, 29) == [(None, "unknown")]


def test_the_coverage_of_what_was_copied_since_is_whole(migration: Migration) -> None:
    assert migration.adopt("--table", migration.table(*FITS), "--apply")[0] == 0
    assert copy(migration.pipeline).stopped == {}
    newest = {r.source: r for r in commit_records(migration.pipeline, migration.target)}
    assert {tp.partition: (r.began, r.target_began) for tp, r in newest.items()} == {0: (30, 25), 1: (12, 7)}
    covered = [
        (m.partition, m.covered_from, m.covered_to) for m in mapping_records(migration.pipeline, migration.target)
    ]
    assert [each for each in covered if each[1] < each[2]] == [(0, 30, 40)]
    assert {each for each in covered if each[1] == each[2]} == {(0, 30, 30), (1, 12, 12)}, "where it was adopted"


@pytest.mark.parametrize(
    ("positions", "said", "fitting"),
    [
        (((0, 28), (1, 12)), "the target ends with the source's record 29: 28 to 29 would be copied a second time", 30),
        (((0, 33), (1, 12)), "the target ends with the source's record 29: 30 to 32 would never be copied", 30),
    ],
)
def test_a_position_that_the_target_contradicts_is_doubtful(
    migration: Migration, positions: Any, said: str, fitting: int
) -> None:
    table = migration.table(*positions)
    code, told_ = migration.adopt("--table", table)
    assert (code, f"doubtful: {said}" in told_) == (0, True), told_
    code, told_ = migration.adopt("--table", table, "--apply")
    assert (code, "1 position doubtful; nothing was written" in told_) == (3, True), told_
    assert commit_records_of(migration) == []
    code, told_ = migration.adopt("--table", table, "--apply", "--follow-target")
    assert (code, f"{migration.topic}-0: {fitting}, target end 25   as the target ends" in told_) == (0, True), told_
    assert copy(migration.pipeline).stopped == {}
    assert migration.values(0) == migration.wanted(0, 40)


def test_repeating_records_are_told_apart_by_their_time(migration: Migration) -> None:
    """The table says one too many, and the record below it looks like the last one that was copied."""
    for servers, count in ((migration.source, 3), (migration.target, 2)):
        beats = [Record(b"beat", b"up", timestamp=NOW + 100 + n) for n in range(count)]
        produce(servers, migration.topic, beats, 1)
    code, said = migration.adopt("--table", migration.table((0, 30), (1, 15)), "--apply")
    assert (code, "the target ends with the source's record 13: 14 to 14 would never be copied" in said) == (3, True), (
        said
    )
    assert migration.adopt("--table", migration.table((0, 30), (1, 14)), "--apply")[0] == 0
    assert copy(migration.pipeline).stopped == {}
    assert migration.values(1) == [*migration.wanted(1, 12), b"up", b"up", b"up"]


def test_what_does_not_fit_is_refused(migration: Migration) -> None:
    other = create_topic(migration.source, unique("other"))
    cases = [
        (((0, 30),), f"{migration.topic}-1: {migration.topic}-1 on the target holds records"),
        (((0, 41), (1, 12)), "offset 41 is not in the source, which holds 0 to 40"),
        (((0, 30), (1, 12), (2, 0)), f"{migration.topic}-2 does not exist: the source topic has 2 partitions"),
        (((0, 30, 26), (1, 12, 7)), f"target offset 26 lies beyond the end of {migration.topic}-0, 25"),
    ]
    for positions, said in cases:
        code, told_ = migration.adopt("--table", migration.table(*positions))
        assert (code, said in told_) == (3, True), told_
    delete_records(migration.source, migration.topic, 0, 31)
    code, told_ = migration.adopt("--table", migration.table(*FITS))
    assert (code, "offset 30 is not in the source, which holds 31 to 40" in told_) == (3, True), told_
    foreign = migration.folder / "foreign.csv"
    foreign.write_text(f"topic,partition,offset\n{other},0,0\n")
    code, told_ = migration.adopt("--table", str(foreign))
    assert (code, "names no topic that the pipeline selects" in told_) == (3, True), told_
    described = migration.folder / "described.json"
    rows = [{"topic": migration.topic, "partition": p, "committed": at} for p, at in FITS]
    described.write_text(json.dumps({"source": "another-cluster", "committed": rows}))
    code, told_ = migration.adopt("--table", str(described))
    assert (code, "is of cluster another-cluster" in told_) == (3, True), told_
    assert commit_records_of(migration) == []


def test_records_behind_the_target_offset_are_doubtful(migration: Migration) -> None:
    produce(migration.target, migration.topic, [(b"29", b"0-29")], 0)
    _, said = migration.adopt("--table", migration.table((0, 30, 25), (1, 12, 7)))
    assert "holds records behind target offset 25, the first at 25" in said


def test_where_the_target_topic_is_missing_nothing_is_adopted(
    clusters: KafkaSandbox, tmp_path: Path, capsys: Any
) -> None:
    migration = Migration(clusters, tmp_path, capsys, sink={"prefix": "nowhere."})
    code, said = migration.adopt("--table", migration.table(*FITS), "--apply")
    assert (code, f"the target topic nowhere.{migration.topic} does not exist" in said) == (3, True), said
    assert commit_records_of(migration) == []


def test_a_pipeline_that_has_positions_or_runs_adopts_nothing(migration: Migration) -> None:
    table = migration.table(*FITS)
    assert migration.adopt("--table", table, "--apply")[0] == 0
    code, said = migration.adopt("--table", table, "--apply")
    assert (code, "has positions already, so there is nothing to adopt" in said) == (3, True), said
    running = Running(migration.pipeline, 1)
    running.await_copied(10)
    code, said = migration.adopt("--table", table, "--apply", "--force")
    assert (code, "has positions already" in said) == (3, True), said
    running.end()


def test_the_other_tool_that_writes_on_is_noticed(migration: Migration) -> None:
    assert migration.adopt("--table", migration.table(*FITS), "--apply")[0] == 0
    produce(migration.target, migration.topic, [(b"30", b"0-30")], 0)
    words = told(copy(migration.pipeline))[migration.topic]
    assert "[foreign-records]" in words


def test_a_table_of_k2ks_own_tool(migration: Migration) -> None:
    path = migration.folder / "described.yaml"
    rows = "".join(f"- {{topic: {migration.topic}, partition: {p}, committed: {at}, last: 99}}\n" for p, at in FITS)
    path.write_text(f"pipeline: p\ngroup: g\ncommitted:\n{rows}")
    assert migration.adopt("--table", str(path), "--apply")[0] == 0
    assert copy(migration.pipeline).topics[migration.topic].records == 10
    assert contents(read_all(migration.target, migration.topic))[:2]


@pytest.mark.parametrize(
    ("begins", "said", "copied"),
    [
        ({}, "it begins at its start", 3),
        (
            {"consumer": {"auto.offset.reset": "latest"}},
            "it begins at its end, as auto.offset.reset says: no record",
            0,
        ),
        ({"start": "latest"}, "it begins at its end, as `start` says: no record that it holds is copied", 0),
        ({"start": NOW + 1}, f"it begins at its first record of {utc(NOW + 1)} or later, as `start` says", 2),
    ],
    ids=["at its start", "latest by default", "latest", "a time"],
)
def test_where_a_topic_begins_that_the_table_does_not_name_is_told_as_it_is(
    migration: Migration, begins: dict[str, Any], said: str, copied: int
) -> None:
    new = create_topic(migration.source, unique("new"))
    produce(migration.source, new, [Record(b"k", b"%d" % n, timestamp=NOW + n) for n in range(3)])
    start = {"start": begins["start"]} if "start" in begins else {}
    stages = [
        {"source": {"topic": [migration.topic, new], **start}},
        {"sink": {"topic": "source", "partition": "source"}},
    ]
    migration.path = write_pipeline(
        migration.folder, migration.source, migration.target, [], consumer=begins.get("consumer"), replication=stages
    )
    create_topic(migration.target, new)
    code, told_ = migration.adopt("--table", migration.table((0, 30)), "--apply")
    assert code == 3, "a partition that was copied is not named"
    code, told_ = migration.adopt("--table", migration.table(*FITS), "--apply")
    assert code == 0, told_
    assert f"{new}-0: not named, and nothing of it is on the target: {said}" in told_
    assert copy(load_pipeline([migration.path])).stopped == {}
    assert len(read_all(migration.target, new)) == copied


def test_a_partition_of_a_topic_that_the_table_names_begins_at_its_start(
    clusters: KafkaSandbox, tmp_path: Path, capsys: Any
) -> None:
    """Partitions that are added to a topic are copied from their start, whatever `auto.offset.reset` says."""
    migration = Migration(clusters, tmp_path, capsys, consumer={"auto.offset.reset": "latest"})
    for servers in (migration.source, migration.target):
        add_partitions(servers, migration.topic, 3)
    migration.write(2, 0, 4)
    code, said = migration.adopt("--table", migration.table(*FITS), "--apply")
    assert code == 0, said
    assert f"{migration.topic}-2: not named, and nothing of it is on the target: it begins at its start" in said
    assert copy(migration.pipeline).stopped == {}
    assert len(migration.values(2)) == 4
