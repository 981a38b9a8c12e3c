"""An index in an object store: nothing locks there, so builds of several machines meet at any step, or end there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.core import object_folder
from k2k_assets.mapping.index import IndexUnusable, merging, roots, update
from k2k_assets.mapping.index.manifest import read_manifest
from k2k_assets.mapping.index.read import IndexReplaced
from k2k_assets_tests.support.memory.mapping_topic import (
    LocalIndex,
    appended,
    folded_at_once,
    histories,
    mapping_record,
    unique_root,
)
from k2k_assets_tests.support.memory.stored_index import Killed, StoredIndex, stored_index, together
from k2k_assets_tests.support.suite.properties import examples


@pytest.fixture
def index(tmp_path: Path) -> Iterator[StoredIndex]:
    with stored_index(tmp_path) as made:
        yield made


@examples(15)
@given(records=histories(), data=st.data())
def test_bit_by_bit_it_is_what_one_fold_of_all_says(
    tmp_path_factory: pytest.TempPathFactory, records: list[MappingRecord], data: st.DataObject
) -> None:
    known = list(records)
    with stored_index(unique_root(tmp_path_factory.getbasetemp())) as index, pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "MOST_OF_A_TIER", data.draw(st.sampled_from([2, 3, 100])))
        patch.setattr(update, "MOST_BYTES", data.draw(st.sampled_from([1, 600, 10**6])))
        index.update()
        while records:
            count = data.draw(st.integers(1, len(records)))
            index.topic.write(*records[:count])
            records = records[count:]
            with index.machines.on(data.draw(st.sampled_from(["one", "other"]))):
                index.update()
        assert index.maps() == folded_at_once(known)
        assert index.left() == index.needed()


@pytest.mark.slow
@examples(15)
@given(seed=st.integers(0, 2**32), most=st.sampled_from([1, 10**6]), stays=st.sampled_from([0.5, 0.8, 0.95]))
def test_builds_that_meet_at_any_step_never_mix(
    tmp_path_factory: pytest.TempPathFactory, seed: int, most: int, stays: float
) -> None:
    """At each step a reader sees a whole index, of some number of records; at the end it is that of all."""
    records = [*appended(3), mapping_record((2, 0), (1, 4), [(1, 50, 3)], time=9), *_recopied(4, 3)]
    valid = [folded_at_once(records[:count]) for count in range(len(records) + 1)]
    seen: list[int] = []

    with stored_index(unique_root(tmp_path_factory.getbasetemp())) as index, pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "MOST_OF_A_TIER", 2)
        patch.setattr(update, "MOST_BYTES", most)
        draw, turn = Random(seed), 0
        left = list(records)

        def build() -> None:
            for _ in range(2):
                index.topic.write(*left[:2])
                del left[:2]
                index.update()

        def next_turn(count: int) -> int:
            nonlocal turn
            with index.machines.on("reader"):
                maps = index.maps()
            assert maps in valid
            assert not seen or valid.index(maps) >= seen[-1], "no build takes back what another one has added"
            seen.append(valid.index(maps))
            turn = turn % count if draw.random() < stays else draw.randrange(count)
            return turn

        together([build, build], index.machines, next_turn)
        assert index.maps() == valid[-len(left) - 1 if left else -1]
        manifest = index.update()
        assert manifest.records_read == len(records) - len(left)
        assert index.left() == index.needed(), "nothing that nobody needs is left"


def _recopied(first: int, count: int) -> list[MappingRecord]:
    return [mapping_record((2, n), (n, n + 1), [(n, 60 + n, 1)], time=9 + n) for n in range(first, first + count)]


@pytest.mark.slow
def test_a_build_that_is_killed_at_any_step_leaves_a_whole_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "MOST_OF_A_TIER", 2)
    added = mapping_record((2, 0), (3, 9), [(3, 50, 6)], time=9)
    old, new = folded_at_once(appended(5)), folded_at_once([*appended(5), added])
    outcomes = []
    at = 0
    while True:
        with stored_index(tmp_path / str(at)) as index:
            index.topic.write(*appended(5))
            index.update()
            index.topic.write(added)
            try:
                with index.machines.on("killed", _killed_at(at)):
                    index.update()
            except Killed:
                maps = index.maps()
                outcomes.append(maps == new)
                assert maps in (old, new), at
                index.update()
                assert index.maps() == new, at
                # What was written for a version that was not made goes with the next one.
                index.topic.write(mapping_record((2, 1), (9, 10), [(9, 60, 1)], time=10))
                index.update()
                assert index.left() == index.needed(), at
            else:
                break
        at += 1
    assert outcomes == sorted(outcomes), "it is switched at one step"
    assert {True, False} == set(outcomes)


def _killed_at(number: int) -> Callable[[str], None]:
    left = iter(range(number, -1, -1))

    def step(_: str) -> None:
        if next(left) == 0:
            raise Killed

    return step


def test_who_slept_until_its_number_was_forgotten_takes_nothing_from_the_others(
    index: StoredIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can create the manifest of that number again, and must neither believe in it nor remove by it."""
    monkeypatch.setattr(object_folder, "_NUMBERS_KEPT", 1)
    monkeypatch.setattr(merging, "MOST_OF_A_TIER", 2)
    index.topic.write(*appended(2))
    index.update()
    created: list[str] = []

    def sleep(step: str) -> None:
        if step.startswith("before") and step.endswith("00000002.json") and not created:
            created.append(step)
            with index.machines.on("awake"):
                for first in range(3, 8):
                    index.topic.write(*appended(1, first=first))
                    index.update()
                assert "00000002.json" not in index.root.names("manifests")

    index.topic.write(*appended(1, first=2))
    with index.machines.on("asleep", sleep):
        manifest = index.update()
    assert created
    assert manifest.records_read == 8
    assert index.maps() == folded_at_once(appended(8))
    with index.machines.on("elsewhere"):
        assert index.maps() == folded_at_once(appended(8)), "all files are there"


def test_a_build_whose_files_are_gone_because_others_went_on_begins_again(
    index: StoredIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "MOST_OF_A_TIER", 2)
    for first in range(3):
        index.topic.write(*appended(1, first))
        index.update()
    slept: list[str] = []

    def sleep(step: str) -> None:
        if step.startswith("before") and "/versions/" in step and not slept:
            slept.append(step)
            with index.machines.on("awake"):
                for first in range(3, 7):
                    index.topic.write(*appended(1, first))
                    index.update()

    identity = index.update().identity
    with index.machines.on("asleep", sleep):
        manifest = index.update()
    assert slept
    assert (manifest.records_read, manifest.identity) == (7, identity), "not built from the start"


def test_each_file_is_fetched_once_and_a_reader_goes_on_with_its_copies(
    index: StoredIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "MOST_OF_A_TIER", 2)
    index.topic.write(*appended(5))
    index.update()
    requests: list[str] = []
    with index.machines.on("reader", requests.append):
        for _ in range(20):
            reader = LocalIndex(index.root).reader()
            (source,) = reader.sources()
            before = reader.partition_map(source)
        files = [step for step in requests if step.startswith("before") and step.endswith(".parquet")]
        assert len(files) == len(set(files)) == 2
        with index.machines.on("writer"):
            for first in range(5, 9):
                index.topic.write(*appended(1, first))
                index.update()
        assert reader.partition_map(source) == before
    with index.machines.on("another reader"), pytest.raises(IndexReplaced):
        reader.partition_map(source, with_dropped=True)


def test_copies_that_no_version_needs_go_after_an_hour(index: StoredIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MOST_OF_A_TIER", 2)
    for first in range(4):
        index.topic.write(*appended(1, first))
        index.update()
    manifest = read_manifest(index.root)
    assert manifest
    segments = next(iter(index.machines.cache_directory().glob("index/*/segments")))
    (segments / "99999999-at-work").mkdir()
    kept = {segment.name for segment in manifest.segments} | {"99999999-at-work"}
    assert {path.name for path in segments.iterdir()} > kept
    roots.remove_copies(index.root, "segments", kept, manifest.number)
    assert {path.name for path in segments.iterdir()} > kept, "somebody may just be opening them"
    for path in segments.iterdir():
        os.utime(path, (time.time() - 4000,) * 2)
    roots.remove_copies(index.root, "segments", kept - {"99999999-at-work"}, manifest.number)
    assert {path.name for path in segments.iterdir()} == kept
    assert index.maps() == folded_at_once(appended(4))


def test_nothing_new_writes_nothing(index: StoredIndex) -> None:
    index.topic.write(*appended(3))
    before = index.update()
    listed = index.root.names()
    assert index.update() == before
    assert index.root.names() == listed


@pytest.mark.parametrize("folder", ["segments", "versions"])
def test_an_index_of_which_objects_are_gone_is_built_anew(index: StoredIndex, folder: str) -> None:
    index.topic.write(*appended(5))
    number = index.update().number
    for name in index.root.names(folder):
        index.root.remove(f"{folder}/{name}")
    index.topic.write(*appended(1, first=5))
    with index.machines.on("elsewhere"):
        assert index.update().number > number
        assert index.maps() == folded_at_once(appended(6))


def test_builds_that_always_come_too_late_give_up(index: StoredIndex) -> None:
    index.topic.write(*appended(1))
    index.update()

    def overtake(step: str) -> None:
        if step.startswith("before") and "/manifests/" in step:
            with index.machines.on("quicker"):
                index.topic.write(*appended(1, len(index.topic.partitions[0])))
                index.update()

    index.topic.write(*appended(1, 1))
    with index.machines.on("slower", overtake), pytest.raises(IndexUnusable, match="by other processes all the time"):
        index.update()
    assert index.update().records_read == len(index.topic.partitions[0])


def test_what_is_pruned_goes_from_the_store_two_versions_later(index: StoredIndex) -> None:
    for first in (0, 3):
        index.topic.write(*appended(3, first))
        index.update()
    index.retention, index.now = 10, 13
    oldest = read_manifest(index.root)
    assert oldest
    assert index.update().pruned
    (only,) = index.maps().values()
    assert [tuple(covered) for covered in only.covered] == [(3, 6)]
    for first in (6, 7):
        index.topic.write(*appended(1, first))
        index.update()
    assert oldest.segments[0].name not in index.left()[1]
    assert index.left() == index.needed()


def test_of_two_builds_that_make_one_version_the_slower_goes_on_from_the_other_one(index: StoredIndex) -> None:
    index.topic.write(*appended(2))
    index.update()
    made: list[bytes] = []

    def meet(step: str) -> None:
        if step.startswith("before") and step.endswith("/00000002.json") and not made:
            made.append(b"")
            with index.machines.on("quicker"):
                index.topic.write(*appended(1, 3))
                index.update()
                made[0] = index.root.read("manifests/00000002.json")

    index.topic.write(*appended(1, 2))
    with index.machines.on("slower", meet):
        manifest = index.update()
    assert index.root.read("manifests/00000002.json") == made[0], "it stays that of the quicker one"
    assert (manifest.number, manifest.records_read) == (2, 4), "nothing was left to add"
    with index.machines.on("elsewhere"):
        assert index.maps() == folded_at_once(appended(4))
