"""A small file is replaced whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from k2k_assets.core.atomic_file import write_atomically


def test_it_replaces_and_makes_the_directory(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b.json"
    for text in ("one", "zwölf"):
        write_atomically(path, text)
        assert path.read_text(encoding="utf-8") == text
    write_atomically(path, b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff"
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_leaves_the_old_one_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "b.json"
    write_atomically(path, "old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
