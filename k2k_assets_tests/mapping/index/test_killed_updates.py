"""An update of the index that is killed (SIGKILL) right before any of its file operations, with nothing cleaned up."""

from __future__ import annotations

import os
import shutil
import sys
from itertools import count
from pathlib import Path

import pytest

from k2k_assets.mapping.index import merging
from k2k_assets.mapping.index.manifest import MANIFEST, SEGMENTS, VERSIONS
from k2k_assets_tests.support.memory.mapping_topic import LocalIndex, folded_at_once, mapping_record, unique_root

_OPERATIONS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree")
_FIRST = [mapping_record((1, n), (n, n + 1), [(n, 2 * n, 1)], time=n) for n in range(5)]
_AGAIN = mapping_record((2, 0), (3, 9), [(3, 50, 6)], time=9)


def _killed_update(index: LocalIndex, at: int) -> bool:
    """Updates in another process, which dies before its file operation number `at`; returns whether it got so far."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    left, place = [at], str(index.folder)

    def die(event: str, arguments: tuple[object, ...]) -> None:
        if event in _OPERATIONS and str(arguments[0]).startswith(place):
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)

    sys.addaudithook(die)
    try:
        index.update()
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.processes
def test_the_index_is_the_one_before_or_the_one_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MOST_OF_A_TIER", 2)
    new = folded_at_once([*_FIRST, _AGAIN])
    was_old = was_new = False
    before = LocalIndex(unique_root(tmp_path))
    for some in (_FIRST[:3], _FIRST[3:]):
        before.topic.write(*some)
        before.update()
    old = before.maps()
    before.topic.write(_AGAIN)
    for at in count(1):
        index = LocalIndex(unique_root(tmp_path), before.topic)
        shutil.copytree(before.folder, index.folder, dirs_exist_ok=True)
        if not _killed_update(index, at):
            break
        found = index.maps()
        assert found in (old, new), at
        was_old, was_new = was_old or found == old, was_new or found == new
        # Once more, and once more after that: the versions that are kept for readers go one by one.
        for _ in range(2):
            index.update()
            assert index.maps() == new, at
        assert {path.name for path in index.folder.iterdir()} == {MANIFEST, SEGMENTS, VERSIONS}, (
            "nothing is left behind"
        )
    assert at > 10
    assert was_old
    assert was_new
