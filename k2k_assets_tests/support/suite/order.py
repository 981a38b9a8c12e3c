"""The order of test files, and which of them share a worker.

A worker that begins a long one last would end long after the others. Where time is limited the short ones come first:
more of them are run then.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

from k2k_assets_tests.support.suite.deselected import left_out

_ROOT = Path(__file__).parents[3]
_OWN_CLUSTERS = "pytest.mark.own_clusters"
# Folders and files, and what their slow tests share: a pair of secured clusters, or a session of Spark, which starts
# once for all.
_BY_ONE_WORKER = {
    "k2k_assets_tests/permissions": "secured",
    "k2k_assets_tests/verification": "spark of the checks",
    "k2k_assets_tests/verification/content/test_content_goes_on.py": "spark of the checks through stages",
    "k2k_assets_tests/verification/content/test_unmapped.py": "spark of the checks through stages",
    **{
        f"k2k_assets_tests/verification/test_{name}.py": "spark of the checks through stages"
        for name in ("added_headers", "adopted", "dropped", "group_both_ways", "transformed")
    },
    **{
        f"k2k_assets_tests/orchestration/{folder}": "spark of the assets"
        for folder in ("assets", "assets/groups", "assets/topics", "runs")
    },
    "k2k_assets_tests/mapping/index": "spark of the assets",
    "k2k_assets_tests/mapping/live/test_live.py": "spark of the assets",
    "k2k_assets_tests/tables": "spark of the assets",
    "k2k_assets_tests/translation": "spark of the assets",
}


class FilesAndFolders(LoadFileScheduling):  # type: ignore[misc]
    """One worker runs all tests of a file, and those of the files that share clusters or a session of Spark."""

    _with_own_clusters: frozenset[str] | None = None

    @property
    def _is_anything_shared(self) -> bool:
        return not left_out(self.config.option.markexpr) >= {"spark", "integration"}

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if not self._is_anything_shared:
            return file
        if self._with_own_clusters is None:
            self._with_own_clusters = with_own_clusters(self.collection or [])
        folder = file.rpartition("/")[0]
        own = "clusters of their own" if file in self._with_own_clusters else None
        return _BY_ONE_WORKER.get(file) or _BY_ONE_WORKER.get(folder) or own or file


def with_own_clusters(nodeids: Iterable[str]) -> frozenset[str]:
    """The files of tests that are marked `own_clusters`.

    A scheduler knows no marks, only the names of the tests that were selected: what is marked is read from the source.
    """
    return frozenset(
        file
        for file, _, rest in (nodeid.partition("::") for nodeid in nodeids)
        if (names := _marked(file)) and ("*" in names or rest.partition("[")[0] in names)
    )


@cache
def _marked(file: str) -> frozenset[str]:
    """The names of a file's tests that are marked `own_clusters`; a star for all."""
    text = (_ROOT / file).read_text(encoding="utf-8")
    if _OWN_CLUSTERS not in text:
        return frozenset()
    found = set()
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.FunctionDef):
            marks = [*map(ast.unparse, statement.decorator_list)]
            found |= {statement.name} if _OWN_CLUSTERS in marks else set()
        elif isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark":
            found |= {"*"} if _OWN_CLUSTERS in ast.unparse(statement.value) else set()
    return frozenset(found)


def by_files(items: list[pytest.Item], is_time_limited: bool) -> list[pytest.Item]:
    """Files with Spark spread among those with clusters, both before those that need neither.

    Args:
        items: Tests of many files, those of each file together.
        is_time_limited: Whether the last ones may be left out: the files with the longest tests are these then, and
            come first otherwise.
    """
    files = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    kinds: dict[str, list[list[pytest.Item]]] = {"spark": [], "integration": [], "unit": []}
    for tests in files:
        kinds[_kind(tests)].append(tests)
    for kind in ("spark", "integration"):
        kinds[kind].sort(key=_longest, reverse=not is_time_limited)
    kinds["unit"].sort(key=lambda tests: -tests[0].path.stat().st_size)  # as good a guess as any
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
    usual = float(tests[0].config.getini("timeout"))
    marks = [item.get_closest_marker("timeout") for item in tests]
    return max(mark.args[0] if mark else usual for mark in marks)
