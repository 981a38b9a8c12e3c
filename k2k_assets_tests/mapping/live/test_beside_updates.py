"""A mapper reads an index while others extend, prune, delete and build it anew, between any two of its file operations.

Whatever it answers is what all mapping records say; else it is unknown.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.mapping.algebra.fold import LateRecord
from k2k_assets.mapping.algebra.in_memory_mapping import InMemoryMapping, NotInMemory, Placed
from k2k_assets.mapping.algebra.in_memory_mappings import InMemoryMappings
from k2k_assets.mapping.algebra.partition_map import PartitionMap, SourcePartition
from k2k_assets.mapping.algebra.translate import TranslationState, translate
from k2k_assets.mapping.index import merging, segment_files, update, versions
from k2k_assets.mapping.index.manifest import IndexUnusable, read_manifest, switch
from k2k_assets.mapping.live.index_access import IndexAccess
from k2k_assets.pipeline import Pipeline
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.mapping_topic import (
    CLUSTERS,
    GROUP,
    TOPIC,
    LocalIndex,
    folded_at_once,
    histories,
    mapping_record,
    unique_root,
)
from k2k_assets_tests.support.memory.offset_model import target
from k2k_assets_tests.support.suite.properties import examples

_BEYOND = 2**62
_TARGETS = [target(partition) for partition in range(3)]


class _Died(Exception):
    """A build has died."""


class World:
    """A mapping topic, an index that others update, and a mapper."""

    def __init__(self, root: Path, records: list[MappingRecord]) -> None:
        self.index = LocalIndex(root / "index", retention=4)
        self.backup = root / "backup"
        self.pipeline = _pipeline(root)
        self.left = list(records)
        self.written: list[MappingRecord] = []
        self.access: IndexAccess
        self.held: InMemoryMappings
        self.next: dict[int, int] = {}
        self.taken = 0

    def write(self) -> None:
        if self.left:
            record = self.left.pop(0)
            self.written.append(record)
            self.index.topic.write(record, partition=record.partition)

    def update(self) -> None:
        """By another process, which prunes too."""
        self.index.now = max((record.time for record in self.written), default=0)
        try:
            self.index.update()
        except IndexUnusable:
            self.delete()  # as the error says

    def update_in_part(self) -> None:
        """By a process that reads little in each round, and dies behind the first one."""

        def switched(*version: Any) -> None:
            switch(*version)
            raise _Died

        with pytest.MonkeyPatch.context() as patch, suppress(_Died):
            patch.setattr(update, "MOST_BYTES", 1)
            patch.setattr(update, "switch", switched)
            self.update()

    def back_up(self) -> None:
        """Keeps a copy of the index; see `restore`."""
        shutil.rmtree(self.backup, ignore_errors=True)
        if self.index.folder.exists():
            shutil.copytree(self.index.folder, self.backup)

    def restore(self) -> None:
        if self.backup.exists():
            self.delete()
            shutil.copytree(self.backup, self.index.folder)

    def delete(self) -> None:
        shutil.rmtree(self.index.folder, ignore_errors=True)

    def expire(self) -> None:
        """Retention of the mapping topic takes what the mapper and the index have read; see `start`."""
        manifest = read_manifest(self.index.root)
        if manifest is not None and manifest.mapping_topic_id == self.index.topic.id:
            for partition in range(2):
                read = min(manifest.offsets.get(partition, 0), self.next.get(partition, 0))
                self.index.topic.starts[partition] = max(self.index.topic.starts[partition], read)

    def start(self) -> None:
        """As `LiveMappings` does."""
        self.access = IndexAccess(self.pipeline, *CLUSTERS, self.index.topic.id)
        self.held = InMemoryMappings(GROUP, mark_every=1)
        self._begin_behind_index()

    def _begin_behind_index(self) -> None:
        behind: dict[SourcePartition, InMemoryMapping] = {}
        if reader := self.access.reader:
            for source in reader.sources():
                known, is_doubtful = reader.partition_map(source, _BEYOND, _BEYOND), source in self.access.doubtful()
                behind[source] = InMemoryMapping.behind(known, reader.newest(source), is_doubtful)
        self.held.begin_behind_index(behind, self.access.offsets)
        self.next = dict(self.access.offsets)

    def read(self) -> None:
        if self.access.take_missed():
            self._anew()
        try:
            if (anew := self.held.read_anew_to) and self.access.has_grown_to(anew):
                self._begin_behind_index()
            self._read()
        except (LateRecord, NotInMemory):
            self._anew()
        self.taken = len(self.written)

    def _anew(self) -> None:
        self.held.begin_anew({p: 2 * len(messages) for p, messages in enumerate(self.index.topic.partitions)})
        self.next = {}
        self._read(lost=False)

    def _read(self, lost: bool = True) -> None:
        topic = self.index.topic
        for partition, messages in enumerate(topic.partitions):
            after = self.next.get(partition, 0)
            if topic.starts[partition] > after and lost:
                self.held.doubt()
            for message in messages:
                if message.offset() >= max(after, topic.starts[partition]):
                    key, value = message.key(), message.value()
                    assert key
                    assert value
                    record = MappingRecord.parse(key, value)
                    source = SourcePartition(record.cluster, record.topic, record.source_topic_id, record.partition)
                    self.held.take({(GROUP, source): [Placed(partition, message.offset(), record)]})
            self.next[partition] = 2 * len(messages)

    def drop(self, older_than: int) -> None:
        self.held.drop(older_than, {}, None)

    def look(self, source: SourcePartition, lowest: int) -> PartitionMap:
        """As `LiveMappings.map_of` does."""
        held = self.held.held(source)
        if lowest >= held.since:
            return PartitionMap(source, 0, *held.alone())
        below = self.access.below(source, lowest, held.since, self.held.read_to(source))
        return PartitionMap(source, 0, *(held.with_index(below) if below else held.alone()))


def _pipeline(root: Path) -> Pipeline:
    root.mkdir(parents=True, exist_ok=True)
    return make_pipeline(
        root, "a:1", "b:1", ["s"],
        features={"offsetMapping": "enabled"}, consumer={"group.id": GROUP}, offsetMapping={"topic": TOPIC},
        index={"path": str(root / "index")},
    )  # fmt: skip


@contextmanager
def _disturbed(at: int, do: Callable[[], None]) -> Iterator[None]:
    """Does something before one of the next file operations of a reader."""
    left = [at]

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                do()
            return real(*args, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((versions, "read_manifest"), (versions, "read_portions"), (segment_files, "fetched")):
            patch.setattr(module, name, watched(getattr(module, name)))
        yield


@examples(60)
@given(records=histories(most=14), data=st.data())
def test_what_it_answers_is_right_whatever_others_do_to_the_index(
    tmp_path_factory: pytest.TempPathFactory, records: list[MappingRecord], data: st.DataObject
) -> None:
    world = World(unique_root(tmp_path_factory.getbasetemp()), records)
    others = {
        "write": world.write,
        "update": world.update,
        "update in part": world.update_in_part,
        "delete": world.delete,
        "back up": world.back_up,
        "restore": world.restore,
        "expire": world.expire,
    }
    some = st.lists(st.sampled_from(["write", "write", *others]), max_size=5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "MOST_OF_A_TIER", 2)
        patch.setattr("k2k_assets.mapping.live.index_access._REFRESH_SECONDS", 0.0)
        for _ in range(data.draw(st.integers(1, 8))):
            world.write()
        world.update()
        world.start()
        for _ in range(data.draw(st.integers(1, 3))):
            for kind in data.draw(some):
                others[kind]()
            world.read()
            world.drop(data.draw(st.integers(0, 14)))
            _look(world, others, data)


def _look(world: World, others: dict[str, Callable[[], None]], data: st.DataObject) -> None:
    kinds = ["update", "update", "write", "update in part", "delete", "restore"]
    meanwhile = data.draw(st.lists(st.sampled_from(kinds), max_size=4))
    before, lowest = len(world.written), data.draw(st.integers(0, 8))

    def do() -> None:
        for kind in meanwhile:
            others[kind]()

    with _disturbed(data.draw(st.integers(1, 6)), do):
        found = {source: world.look(source, lowest) for source in sorted(world.held.sources())}
    # What was copied since may be in the index already.
    right = [folded_at_once(world.written[:count]) for count in range(before, len(world.written) + 1)]
    for source, answered in found.items():
        positions = np.arange(lowest, 16)
        for to in _TARGETS:
            answer = translate(answered, to, positions)
            told = answer.states == TranslationState.EXACT
            wanted = [translate(each[source], to, positions) for each in right if source in each]
            for number in np.flatnonzero(told).tolist():
                options = {int(each.offsets[number]) for each in wanted}
                assert int(answer.offsets[number]) in options, (source, to, positions[number], meanwhile)


_LEFT_OUT = mapping_record((1, 1), (0, 10), [(0, 0, 10)])
_SET_BACK = replace(mapping_record((2, 1), (0, 0)), override="by hand")
_AGAIN = [mapping_record((3, 2), (0, 10), [(0, 11, 10)]), mapping_record((3, 3), (10, 20), [(10, 22, 10)])]


@pytest.mark.parametrize("how", ["built in part", "restored"])
def test_an_index_that_has_read_less_than_before_answers_nothing_of_what_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """It holds the former copy, which the mapper knows to be cancelled: a group at 5 was moved to 5 instead of 16."""
    monkeypatch.setattr("k2k_assets.mapping.live.index_access._REFRESH_SECONDS", 0.0)
    world = World(tmp_path, [_LEFT_OUT, _SET_BACK, *_AGAIN])
    world.index.retention = None
    world.write()
    world.update()
    world.back_up()
    for _ in range(3):
        world.write()
    world.update()
    world.start()
    world.read()
    world.delete()
    if how == "restored":
        world.restore()
    else:
        world.update_in_part()
    (source,) = world.held.sources()

    def found() -> tuple[list[int], list[int]]:
        answer = translate(world.look(source, 5), target(0), np.array([5]))
        return answer.offsets.tolist(), answer.states.tolist()

    assert found() == ([-1], [TranslationState.UNKNOWN])
    world.read()
    assert found() == ([16], [TranslationState.EXACT]), "the mapping topic was read from its start"
    world.update()
    world.read()
    assert found() == ([16], [TranslationState.EXACT])
    assert not world.held.read_anew_to, "it goes on behind the index"


@pytest.mark.parametrize("is_seen_anew", [False, True], ids=["as it was", "with newer positions"])
def test_a_version_that_could_not_be_read_for_a_moment_is_gone_back_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_seen_anew: bool
) -> None:
    """Nothing new is copied, so no other version comes, and the mapping topic has deleted the records."""
    monkeypatch.setattr("k2k_assets.mapping.live.index_access._REFRESH_SECONDS", 0.0)
    world = World(tmp_path, [_LEFT_OUT])
    world.index.retention = None
    world.write()
    world.update()
    world.start()
    world.read()
    world.index.topic.expire()
    if is_seen_anew:
        world.index.topic.write(mapping_record((1, 2), (10, 20), [(10, 10, 10)]))
        world.read()
        world.index.topic.expire()
        world.update()
    (source,) = world.held.sources()

    def found() -> int:
        return int(translate(world.look(source, 5), target(0), np.array([5])).offsets[0])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_files, "fetched", _fails)
        assert found() == -1
        world.read()
        world.read()
        assert found() == -1
    world.read()
    assert found() == 5


def test_an_index_of_another_pipeline_takes_nothing_from_what_the_topic_still_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has built it in the same place; it is not used, and the mapping topic has all records."""
    monkeypatch.setattr("k2k_assets.mapping.live.index_access._REFRESH_SECONDS", 0.0)
    world = World(tmp_path, [_LEFT_OUT])
    world.write()
    world.update()
    world.start()
    world.delete()
    world.update()
    built = read_manifest(world.index.root)
    assert built
    switch(world.index.root, built.model_copy(update={"group": "another"}))
    (source,) = world.held.sources()
    world.look(source, 5)
    world.read()
    assert translate(world.look(source, 5), target(0), np.array([5])).offsets.tolist() == [5]


def _fails(*_: object) -> Path:
    raise OSError(28, "No space left on device")
