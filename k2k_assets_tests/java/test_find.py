"""The search for Java uses Spark's places, and one line says what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.errors import K2KError
from k2k_assets.java.find import find_java


def _fake_java(home: Path, says: str, code: int = 0) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize("version", ["17.0.15", "21-ea", "25"])
def test_new_enough(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = _fake_java(tmp_path, f'openjdk version "{version}" 2025-04-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == java


@pytest.mark.parametrize(("version", "major"), [("1.8.0_402", 8), ("11.0.2", 11)])
def test_too_old(version: str, major: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fake_java(tmp_path, f'java version "{version}"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(K2KError, match=rf"is Java {major}; .* 17 or newer\. Install Java 17") as caught:
        find_java()
    assert "\n" not in str(caught.value)


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_home = _fake_java(tmp_path / "home", 'openjdk version "17"')
    on_path = _fake_java(tmp_path / "path", 'openjdk version "21"')
    monkeypatch.setenv("PATH", str(on_path.parent), prepend=":")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == at_home
    monkeypatch.delenv("JAVA_HOME")
    assert find_java() == on_path


def test_none_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(K2KError, match=r"^No Java found.*Install Java 17"):
        find_java()


def test_java_home_without_a_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(K2KError, match=r"JAVA_HOME is .*no bin/java"):
        find_java()


def test_a_java_that_is_only_a_signpost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a macOS without Java."""
    _fake_java(tmp_path, "The operation could not be completed. Unable to locate a Java Runtime.", code=1)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(K2KError, match="Unable to locate a Java Runtime"):
        find_java()


@pytest.mark.parametrize(("deaths", "usable"), [(1, True), (2, True), (3, False)])
def test_one_that_is_killed_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: int, usable: bool
) -> None:
    """As a storm found: its answer is not that there is none."""
    java = _fake_java(tmp_path, 'openjdk version "17"')
    answers = java.read_text().removeprefix("#!/bin/sh\n")
    died = tmp_path / "died"
    few = f"[ $(ls {died}.* 2>/dev/null | wc -l) -lt {deaths} ]"
    java.write_text(f"#!/bin/sh\nif {few}; then touch {died}.$$; kill -9 $$; fi\n{answers}")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if usable:
        assert find_java() == java
    else:
        with pytest.raises(K2KError, match=r"`java -version` says: signal 9 ended it\)"):
            find_java()
