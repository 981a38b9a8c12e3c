"""The cache of jars: complete or absent, checked, and filled by one process at a time."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from k2k_assets.core.errors import InvalidVariable, K2KError
from k2k_assets.core.home import cache_directory
from k2k_assets.sandbox.ivy import Coordinates
from k2k_assets.sandbox.jars import KAFKA, fetch_jars, kafka_manifest, kafka_versions, read_manifest

JARS = {"com.example:one:1.0": b"first jar", "com.example.deep:two_2.13:0.3": b"second jar"}


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("K2K_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "example-1.0.jars"
    lines = [f"{name}  {hashlib.sha256(content).hexdigest()}\n" for name, content in JARS.items()]
    path.write_text("# A comment\n" + "".join(lines))
    return path


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven repository in files, which the real Ivy is sent to."""
    root = tmp_path / "repository"
    for name, content in JARS.items():
        jar = Coordinates(*name.split(":"))
        path = root / jar.group.replace(".", "/") / jar.artifact / jar.version / jar.file_name
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", f"file://{root}/")
    return root


def _never(jars: Sequence[Coordinates], work: Path) -> Path:
    raise AssertionError("downloaded again")


def test_without_a_home_directory_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("HOME", "K2K_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(K2KError, match="Set K2K_CACHE to an absolute path"):
        cache_directory()
    monkeypatch.setenv("XDG_CACHE_HOME", "/shared")
    assert cache_directory() == Path("/shared/k2k-assets")


@pytest.mark.processes
def test_ivy_brings_the_jars_from_the_repository_that_the_variable_names(manifest: Path, repository: Path) -> None:
    jars = fetch_jars(manifest)
    assert {path.name: path.read_bytes() for path in jars.iterdir()} == {
        "one-1.0.jar": b"first jar",
        "two_2.13-0.3.jar": b"second jar",
    }
    assert fetch_jars(manifest, _never) == jars


@pytest.mark.slow
def test_a_damaged_jar_is_fetched_again(manifest: Path, repository: Path) -> None:
    jars = fetch_jars(manifest)
    (jars / "one-1.0.jar").write_bytes(b"bit rot")
    assert (fetch_jars(manifest) / "one-1.0.jar").read_bytes() == b"first jar"


@pytest.mark.processes
def test_another_content_is_refused_and_nothing_stays(manifest: Path, repository: Path) -> None:
    next(repository.rglob("one-1.0.jar")).write_bytes(b"someone else's jar")
    with pytest.raises(K2KError, match=r"one-1\.0\.jar has another SHA-256"):
        fetch_jars(manifest)
    assert [path.name for path in cache_directory().iterdir() if path.is_dir()] == []


@pytest.mark.slow
def test_an_unreachable_repository(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://user:secret@127.0.0.1:1/maven/")
    with pytest.raises(K2KError, match=r"http://127\.0\.0\.1:1/maven/ .*DEFAULT_ARTIFACT_REPOSITORY") as caught:
        fetch_jars(manifest)
    assert "secret" not in str(caught.value)
    assert "com.example#one" in str(caught.value)


def test_two_processes_at_once_download_once(manifest: Path, tmp_path: Path) -> None:
    downloads = tmp_path / "downloads"
    script = f"""
import os, time
from pathlib import Path
from k2k_assets.sandbox.jars import fetch_jars

def slowly(jars, work):
    with open({str(downloads)!r}, "a") as log:
        log.write("one download\\n")
    time.sleep(1)  # long enough for the other process to come
    (work / "jars").mkdir()
    for jar, content in zip(jars, {list(JARS.values())!r}):
        (work / "jars" / jar.file_name).write_bytes(content)
    return work / "jars"

print(fetch_jars(Path({str(manifest)!r}), slowly))
"""
    processes = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = {process.communicate(timeout=60)[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0]
    assert len(answers) == 1
    assert downloads.read_text() == "one download\n"


@pytest.mark.slow
def test_what_a_killed_download_left_is_cleaned_up(manifest: Path, repository: Path) -> None:
    left = cache_directory() / f".fetching-{fetch_jars(manifest).name}-abc"
    left.mkdir()
    (fetch_jars(manifest) / "one-1.0.jar").unlink()
    fetch_jars(manifest)
    assert not left.exists()


def test_a_cache_that_cannot_be_written(manifest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("K2K_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(K2KError, match=r"Cannot keep jars in .*K2K_CACHE"):
        fetch_jars(manifest)


@pytest.mark.parametrize("version", kafka_versions())
def test_the_manifest_names_a_broker_that_can_log(version: str) -> None:
    jars = read_manifest(kafka_manifest(version))
    assert {"kafka_2.13", "slf4j-simple"} <= {jar.artifact for jar in jars}
    assert {jar.version for jar in jars if jar.group == "org.apache.kafka"} == {version}


def test_the_version_is_given_or_of_the_environment_or_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    newest, *_, oldest = kafka_versions()
    monkeypatch.delenv("K2K_KAFKA_VERSION", raising=False)
    assert kafka_manifest() == KAFKA == kafka_manifest(newest)
    monkeypatch.setenv("K2K_KAFKA_VERSION", oldest)
    assert kafka_manifest().name == f"kafka-{oldest}.jars"
    assert kafka_manifest(newest) == KAFKA
    with pytest.raises(K2KError, match=f"the sandbox has Kafka {newest} and {oldest}, not 1.0"):
        kafka_manifest("1.0")
    monkeypatch.setenv("K2K_KAFKA_VERSION", "../x")
    with pytest.raises(InvalidVariable, match="K2K_KAFKA_VERSION cannot be used"):
        kafka_manifest()


@pytest.mark.integration
def test_the_real_jars_are_fetched_and_verified() -> None:
    assert {path.name for path in fetch_jars().iterdir()} == {jar.file_name for jar in read_manifest(KAFKA)}
