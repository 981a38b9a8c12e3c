"""The check on groups uses the settings around them, if known; without clusters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.mapping.algebra.fold import Beginning, Covered, Order
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.index.portions import Portion, SettingsRange
from k2k_assets.verification.groups import copies
from k2k_assets.verification.groups.copies import ComparedCopies, compared_copies
from k2k_assets.verification.groups.match import Match
from k2k_assets.verification.groups.places import GroupPlace
from k2k_assets.verification.groups.settings import readings_around
from k2k_assets_tests.support.copies.pipelines import make_pipeline

COMMITTED = CopySettings("read_committed", headers=True, timestamps=True, alone=False)
UNCOMMITTED = replace(COMMITTED, isolation="read_uncommitted")
KNOWN = {"c": COMMITTED, "h": replace(COMMITTED, headers=False), "u": UNCOMMITTED}
R_C, R_U = COMMITTED.reading, UNCOMMITTED.reading
TOPICS = [TopicPartition(topic, 0) for topic in ("t", "u", "v")]
FAULTY = ComparedCopies(Match(compared=1, skipped=1), nothing_there=False, faulty=True, by_hand=0)
MILLION = 1_000_000


def _portion(*settings: SettingsRange, start: int = 0, skipped: tuple[Covered, ...] = ()) -> Portion:
    covered = (Covered(start, settings[-1].end),)
    source, order = SourcePartition("c", "t", "tid", 0), Order(1, 1)
    return Portion(
        source,
        "s",
        "",
        start,
        covered[0].end,
        covered,
        order,
        Beginning(1, 1, start),
        order,
        0,
        0,
        1,
        (),
        skipped,
        settings,
    )


def test_the_reading_is_that_of_what_was_copied_around_it() -> None:
    portions = [
        _portion(
            SettingsRange(0, MILLION, "u"),
            SettingsRange(MILLION, 2 * MILLION, "c"),
            SettingsRange(2 * MILLION, 3 * MILLION, "h"),
        )
    ]
    around = [readings_around(portions, at, KNOWN) for at in (10, MILLION, 2 * MILLION, 3 * MILLION, 4 * MILLION)]
    both = {R_U, R_C}
    assert around == [{R_U}, both, {R_C}, {R_C}, set()]
    assert readings_around(portions, 10, {"c": COMMITTED}) == {None}, "nobody knows what the fingerprint stands for"


def test_what_a_former_release_copied_without_a_note_is_not_guessed() -> None:
    portions = [_portion(SettingsRange(500, 1000, "c"))]
    assert readings_around(portions, 800, KNOWN) == {R_C, None}
    skipped = _portion(SettingsRange(500, 1000, "c"), skipped=(Covered(0, 500),))
    assert readings_around([skipped], 800, KNOWN) == {R_C}
    assert readings_around([_portion(SettingsRange(500, 1000, "c"), start=500)], 800, KNOWN) == {R_C}


@pytest.mark.parametrize(
    ("known", "levels", "compared"),
    [
        (
            KNOWN,
            [{R_C}, {R_U}, {R_C, R_U}],
            [(0, replace(COMMITTED, headers=False)), (1, UNCOMMITTED)],
        ),
        ({"c": COMMITTED}, [{R_C, None}, {None}, set()], [(2, COMMITTED)]),
    ],
    ids=["both levels", "not noted"],
)
def test_a_fault_is_one_where_the_level_is_known(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    known: dict[str, CopySettings],
    levels: list[set[Any]],
    compared: list[tuple[int, CopySettings]],
) -> None:
    asked: list[tuple[CopySettings, list[GroupPlace]]] = []

    def match_all(_p: Any, _r: Any, places: Any, _s: Any, _t: Any, settings: Any, _h: Any) -> list[ComparedCopies]:
        asked.append((settings, list(places)))
        return [FAULTY for _ in places]

    of_topic = dict(zip(TOPICS, levels, strict=True))
    monkeypatch.setattr(copies, "_match_all", match_all)
    monkeypatch.setattr(copies, "noted_settings", lambda *_: known)
    monkeypatch.setattr(copies, "skipped_by_hand", lambda *_: {})
    monkeypatch.setattr(copies, "readings_in_index", lambda *_: lambda tp, _at: of_topic[tp])
    places = [GroupPlace("g", (tp, 5), ((tp, 5),), True, CommitDecision.EXACT) for tp in TOPICS]
    nothing: Any = None
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"])
    found = dict(compared_copies(pipeline, nothing, places, nothing, nothing))
    assert [number for number, place in enumerate(places) if found[place]] == [number for number, _ in compared]
    assert asked[1:] == [(settings, [places[number]]) for number, settings in compared]
