"""Settings under which records were copied: a fingerprint, and the document that it stands for."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

from k2k_assets.control.copy_settings import CopySettings, Isolation, shared
from k2k_assets.pipeline.sections.added_headers import AddedHeader, AddedHeaders
from k2k_assets.pipeline.sections.schema_mapping import FacetRule

RULES = ((), (FacetRule(".*", True, True),), (FacetRule("a", True, False), FacetRule("b.*", False, True)))
ADDED: tuple[AddedHeaders, ...] = ((), (AddedHeader("__k2k_offset", "offset"), AddedHeader("name", "text", "p")))
ALL = [
    CopySettings(isolation, headers, timestamps, alone, rules, added)
    for isolation in (Isolation.__args__)  # type: ignore[attr-defined]
    for headers, timestamps, alone in product((False, True), repeat=3)
    for rules in RULES
    for added in ADDED
]


def test_each_has_a_fingerprint_of_its_own_and_comes_back_from_its_document() -> None:
    assert len({settings.fingerprint for settings in ALL}) == len(ALL)
    assert [CopySettings.parse(settings.document()) for settings in ALL] == ALL


def test_a_fingerprint_never_changes() -> None:
    """It lies in topics that later releases read."""
    full = CopySettings("read_committed", headers=True, timestamps=True, alone=True)
    assert full.fingerprint == "0188e04c"
    assert full.document().keys() == {"isolation", "headers", "timestamps", "alone"}, "older releases read it too"


def test_what_is_noted_stands_for_plans_of_shared_targets_too() -> None:
    """The plan decides, and it is made after the settings are noted."""
    for settings in ALL:
        assert set(settings.by_fingerprint.values()) == {settings, replace(settings, alone=False)}
        assert all(each.fingerprint == name for name, each in settings.by_fingerprint.items())


def test_what_a_newer_release_adds_is_not_guessed() -> None:
    document = ALL[0].document()
    assert CopySettings.parse({**document, "mask": "sha256"}) is None
    assert CopySettings.parse({name: value for name, value in document.items() if name != "headers"}) is None
    assert CopySettings.parse({**document, "isolation": "read_some"}) is None
    assert CopySettings.parse({**document, "schemas": [["a", True]]}) is None
    assert CopySettings.parse({**document, "schemas": "a"}) is None
    assert CopySettings.parse({**document, "added": [["name", "offset"]]}) is None
    assert CopySettings.parse({**document, "added": [["name", "checksum", ""]]}) is None
    assert CopySettings.parse({**document, "added": "a"}) is None


def test_documents_come_back_through_json() -> None:
    for settings in ALL:
        assert CopySettings.parse(json.loads(json.dumps(settings.document()))) == settings


def test_the_first_rule_that_matches_a_topic_counts() -> None:
    settings = CopySettings("read_committed", True, True, True, RULES[2])
    facets = {topic: settings.facets(topic) for topic in ("a", "b", "bc", "c")}
    assert facets == {"a": {"key"}, "b": {"value"}, "bc": {"value"}, "c": frozenset()}


def test_only_what_all_have_copied_can_be_compared() -> None:
    full = CopySettings("read_committed", headers=True, timestamps=True, alone=True)
    assert shared([full, replace(full, headers=False), replace(full, alone=False)]) == CopySettings(
        "read_committed", headers=False, timestamps=True, alone=False
    )
    assert shared([full, replace(full, isolation="read_uncommitted")]) is None
    assert shared([full, replace(full, schemas=RULES[1])]) is None


def test_headers_are_compared_only_where_all_were_made_in_one_way() -> None:
    without = CopySettings("read_committed", headers=False, timestamps=True, alone=True)
    traced = replace(without, added=ADDED[1])
    assert shared([traced, replace(traced, alone=False)]) == replace(traced, alone=False)
    kept = replace(traced, headers=True)
    for others in (
        [traced, without],
        [traced, kept],
        [kept, replace(kept, added=())],
        [kept, replace(kept, added=ADDED[1][:1])],
    ):
        assert shared(others) == without
