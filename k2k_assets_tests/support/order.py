"""In which order test files are run, and which by the same worker.

A worker that begins a long one last would end long after the others.
"""

from __future__ import annotations

from itertools import groupby

import pytest
from xdist.scheduler import LoadFileScheduling

_DEFAULT_SECONDS = 180
# Folders and files, and what they share: a pair of secured clusters, or a session of Spark, which starts once for all.
_BY_ONE_WORKER = {
    "k2k_assets_tests/permissions": "secured",
    "k2k_assets_tests/verification": "spark of the checks",
    "k2k_assets_tests/orchestration/assets": "spark of the assets",
    "k2k_assets_tests/mapping/index": "spark of the assets",
    "k2k_assets_tests/mapping/live/test_live.py": "spark of the assets",
    "k2k_assets_tests/translation": "spark of the assets",
}


class FilesAndFolders(LoadFileScheduling):  # type: ignore[misc]
    """The tests of a file go to one worker, and all files of some folders."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = file.rpartition("/")[0]
        return _BY_ONE_WORKER.get(file) or _BY_ONE_WORKER.get(folder) or file


def long_files_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """Files with Spark spread among those with clusters, both before those that need neither.

    Args:
        items: Tests of many files, those of each file together.
    """
    files = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    kinds: dict[str, list[list[pytest.Item]]] = {"spark": [], "integration": [], "unit": []}
    for tests in files:
        kinds[_kind(tests)].append(tests)
    for of_kind in kinds.values():
        of_kind.sort(key=lambda tests: -_longest(tests))
    # Several Sparks at once would be too much for two cores: one file with Spark, then some without.
    places = {"spark": 0.75, "integration": 1.0}
    spread = [
        (share * i / len(kinds[kind]), tests) for kind, share in places.items() for i, tests in enumerate(kinds[kind])
    ]
    spread.sort(key=lambda placed: placed[0])
    return [item for tests in [*(tests for _, tests in spread), *kinds["unit"]] for item in tests]


def _kind(tests: list[pytest.Item]) -> str:
    marks = {mark.name for item in tests for mark in item.iter_markers()}
    return next((kind for kind in ("spark", "integration") if kind in marks), "unit")


def _longest(tests: list[pytest.Item]) -> float:
    marks = [item.get_closest_marker("timeout") for item in tests]
    return max(mark.args[0] if mark else _DEFAULT_SECONDS for mark in marks)
