"""The class archive appears complete or not at all, and is used only if it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.errors import K2KError
from k2k_assets.java.class_archive import archive_of, flags_with, make_archive


def written_by(flags: list[str]) -> Path:
    (flag,) = flags
    return Path(flag.removeprefix("-XX:ArchiveClassesAtExit="))


def test_it_is_made_once_and_then_used(tmp_path: Path) -> None:
    archive = tmp_path / "kafka.jsa"
    assert flags_with(archive) == []

    def write(flags: list[str]) -> None:
        written_by(flags).write_bytes(b"classes")

    make_archive(archive, write)
    assert archive.read_bytes() == b"classes"
    make_archive(archive, lambda _: pytest.fail("it is there already"))
    assert flags_with(archive) == [f"-XX:SharedArchiveFile={archive}"]
    assert list(tmp_path.iterdir()) == [archive]


@pytest.mark.parametrize("error", [K2KError("it does not start"), None])
def test_a_broker_that_fails_or_leaves_nothing_behind_makes_none(tmp_path: Path, error: Exception | None) -> None:
    def fail(flags: list[str]) -> None:
        if error:
            written_by(flags).write_bytes(b"half")
            raise error

    with pytest.raises((K2KError, FileNotFoundError)):
        make_archive(tmp_path / "kafka.jsa", fail)
    assert list(tmp_path.iterdir()) == []


def test_another_java_has_another_archive(tmp_path: Path) -> None:
    first, second = tmp_path / "a" / "java", tmp_path / "b" / "java"
    for java in (first, second):
        java.parent.mkdir()
        java.write_text("")
    assert archive_of(tmp_path / "jars", first) == archive_of(tmp_path / "jars", first)
    assert archive_of(tmp_path / "jars", first) != archive_of(tmp_path / "jars", second)
