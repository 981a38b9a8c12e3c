"""Settings under which records were copied: named by a fingerprint, kept as a document."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from k2k_assets.control.copy_settings import CopySettings, Isolation, shared

ALL = [
    CopySettings(isolation, *flags)
    for isolation in (Isolation.__args__)  # type: ignore[attr-defined]
    for flags in product((False, True), repeat=3)
]


def test_each_has_a_fingerprint_of_its_own_and_comes_back_from_its_document() -> None:
    assert len({settings.fingerprint for settings in ALL}) == len(ALL)
    assert [CopySettings.parse(settings.document()) for settings in ALL] == ALL


def test_a_fingerprint_never_changes() -> None:
    """It lies in topics that later releases read."""
    assert CopySettings("read_committed", headers=True, timestamps=True, alone=True).fingerprint == "0188e04c"


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


def test_only_what_all_have_copied_can_be_compared() -> None:
    full = CopySettings("read_committed", headers=True, timestamps=True, alone=True)
    assert shared([full, replace(full, headers=False), replace(full, alone=False)]) == CopySettings(
        "read_committed", headers=False, timestamps=True, alone=False
    )
    assert shared([full, replace(full, isolation="read_uncommitted")]) is None
