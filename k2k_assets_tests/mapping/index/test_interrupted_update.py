"""An update that dies at any step, and an index of which files are gone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from k2k_assets.mapping.index import merging, update
from k2k_assets.mapping.index.manifest import (
    SEGMENTS,
    VERSIONS,
    read_manifest,
)
from k2k_assets.mapping.index.read import IndexReplaced
from k2k_assets.mapping.index.state import IndexState
from k2k_assets_tests.support.memory.mapping_topic import (
    LocalIndex,
    LocalJobs,
    appended,
    folded_at_once,
    mapping_record,
)

STEPS = ["jobs.fold", "state.extended", "jobs.merge", "write_portions", "switch", "remove_what_nobody_needs"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_leaves_a_whole_version(
    index: LocalIndex, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    monkeypatch.setattr(merging, "MOST_OF_A_TIER", 2)
    index.topic.write(*appended(5))
    index.update()
    old = index.maps()
    index.topic.write(mapping_record((2, 0), (3, 9), [(3, 50, 6)], time=9))
    new = folded_at_once([*appended(5), mapping_record((2, 0), (3, 9), [(3, 50, 6)], time=9)])
    with monkeypatch.context() as patch:
        _crash(patch, step, after)
        with pytest.raises(KeyboardInterrupt):
            index.update()
    switched = step == "switch" and after
    assert index.maps() == (new if switched else old)
    index.update()
    assert index.maps() == new
    assert _left_on_disk(index) == _needed(index)


def _crash(patch: pytest.MonkeyPatch, step: str, after: bool) -> None:
    owner: Any = {"jobs": LocalJobs, "state": IndexState}.get(step.partition(".")[0], update)
    name = step.rpartition(".")[2]
    real: Callable[..., Any] = getattr(owner, name)

    def crash(*args: Any) -> None:
        if after:
            real(*args)
        raise KeyboardInterrupt

    patch.setattr(owner, name, crash)


def _left_on_disk(index: LocalIndex) -> tuple[set[str], set[str]]:
    versions, segments = ({path.name for path in (index.folder / folder).iterdir()} for folder in (VERSIONS, SEGMENTS))
    return versions, segments


def _needed(index: LocalIndex) -> tuple[set[str], set[str]]:
    manifest = read_manifest(index.root)
    assert manifest
    versions = {manifest.directory, *manifest.previous}
    segments = {s.name for s in manifest.segments}
    return versions, segments | (_left_on_disk(index)[1] if manifest.previous else set())


@pytest.mark.parametrize("gone", [SEGMENTS, VERSIONS])
def test_an_index_of_which_files_are_gone_is_built_anew(index: LocalIndex, gone: str) -> None:
    """As a storm found: somebody deletes the directory while an update writes, and what that wrote stays."""
    for first in (0, 5):
        index.topic.write(*appended(5, first))
        index.update()
    before = index.maps()
    oldest = min((index.folder / gone).iterdir()) if gone == SEGMENTS else max((index.folder / gone).iterdir())
    shutil.rmtree(oldest)
    index.topic.write(*appended(1, first=10))
    index.update()
    assert index.maps() == folded_at_once(appended(11))
    assert before.keys() == index.maps().keys()


def test_who_opened_a_version_keeps_it_until_the_second_update(
    index: LocalIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "MOST_OF_A_TIER", 2)
    index.topic.write(*appended(5))
    index.update()
    reader, not_used_yet, (source,) = index.reader(), index.reader(), index.reader().sources()
    before = reader.partition_map(source)
    index.topic.write(*appended(5, first=5))
    assert len(index.update().segments) == 1, "the segment that the reader has open was merged"
    assert index.reader().partition_map(source) != before
    assert reader.partition_map(source) == before
    index.topic.write(*appended(1, first=10))
    index.update()
    with pytest.raises(IndexReplaced, match="open the index again"):
        not_used_yet.partition_map(source)
