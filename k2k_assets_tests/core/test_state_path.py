"""State on this machine, and in object stores: written as a whole, read back, and never in the way."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from s3fs import S3FileSystem  # type: ignore[import-untyped]

from k2k_assets import discovery
from k2k_assets.core import state_path
from k2k_assets.core.errors import Refused
from k2k_assets.core.home import HOME_VARIABLE, discovery_file, index_directory, turn_file
from k2k_assets.core.state_path import STORES, StatePath
from k2k_assets.discovery import DiscoveredTopic, Discovery
from k2k_assets.verification.groups.turns import next_turn
from k2k_assets_tests.support.services.s3 import BUCKET, s3_server


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_path_is_a_place_on_this_machine(tmp_path: Path, prefix: str) -> None:
    file = StatePath.of(f"{prefix}{tmp_path}", "K2K_HOME") / "a" / "b c.json"
    assert file.local == tmp_path / "a" / "b c.json"
    with pytest.raises(FileNotFoundError):
        file.read()
    file.replace("ü")
    file.replace(b"\x00\xff")
    assert file.read() == b"\x00\xff"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b c.json"], "no temporary file is left"


def test_a_relative_path_is_one_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert StatePath.of("state", "K2K_HOME").local == tmp_path / "state"


@pytest.mark.parametrize("address", ["sftp://host/k2k", "http://host/k2k", "ftp://host", "hdfs://host/k2k"])
def test_what_is_no_object_store_is_refused(address: str) -> None:
    with pytest.raises(Refused, match=r"K2K_HOME: .* is neither a path nor an address of an object store"):
        StatePath.of(address, "K2K_HOME")


def test_a_store_whose_package_is_missing_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(OSError, match="gs://bucket/x needs the package gcsfs"):
        StatePath.of("gs://bucket/x", "K2K_HOME").read()


def test_a_store_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_path, "STORE_SECONDS", 0.2)
    hold = threading.Event()

    def hang(address: str) -> tuple[object, str]:
        hold.wait(30)
        raise OSError(address)

    monkeypatch.setattr(state_path, "_store", hang)
    began = time.monotonic()
    with pytest.raises(OSError, match=r"does not answer within 0\.2 s"):
        StatePath.of("s3://bucket/x", "K2K_HOME").read()
    assert time.monotonic() - began < 10
    hold.set()


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    address = f"memory://{request.node.name}"
    monkeypatch.setenv(HOME_VARIABLE, address)
    return address


def _found(partitions: int = 3) -> Discovery:
    return Discovery("my pipeline/ü", 1, "source-id", "target-id", {"a.b": DiscoveredTopic(partitions, "copy")}, ("g",))


def test_state_lies_where_it_is_told_to(memory: str) -> None:
    assert str(discovery_file("p")).startswith(f"{memory}/discovery/p")
    assert discovery.load("my pipeline/ü") is None
    assert discovery.save(_found())
    assert not discovery.save(_found()), "nothing has changed"
    assert discovery.save(_found(4))
    assert discovery.load("my pipeline/ü") == _found(4)
    assert [next_turn("a"), next_turn("a"), next_turn("b"), next_turn("a")] == [0, 1, 0, 2]
    turn_file("a").replace("{broken")
    assert next_turn("a") == 0


def test_the_index_lies_there_too_or_where_its_own_path_says(memory: str, tmp_path: Path) -> None:
    assert str(index_directory("p")) == f"{memory}/index/p"
    assert str(index_directory("p", "s3://bucket/index")) == "s3://bucket/index"
    assert index_directory("p", str(tmp_path)).local == tmp_path
    with pytest.raises(Refused, match=r"index\.path: .* is neither a path nor an address"):
        index_directory("p", "hdfs://host/index")


def test_each_store_has_its_package() -> None:
    assert all(STORES[scheme] for scheme in ("s3", "gs", "az", "abfs"))


# -- a real server --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[dict[str, str], Path]]:
    with s3_server() as running:
        yield running


@pytest.fixture
def state(server: tuple[dict[str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    variables, folder = server
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(HOME_VARIABLE, f"s3://{BUCKET}/{tmp_path.name}/")
    # Clients are kept by their arguments: not by the variables, which are others now.
    S3FileSystem.clear_instance_cache()
    return folder / tmp_path.name


@pytest.mark.slow
def test_state_in_s3(state: Path) -> None:
    """On a real server, whose files are looked at."""
    assert discovery.load("my pipeline/ü") is None
    assert discovery.save(_found())
    assert discovery.load("my pipeline/ü") == _found()
    assert [next_turn("a"), next_turn("a")] == [0, 1]
    written = sorted(path.relative_to(state).as_posix() for path in state.rglob("*.json"))
    places = sorted(map(str, (turn_file("a"), discovery_file("my pipeline/ü"))))
    assert [f"s3://{BUCKET}/{state.name}/{name}" for name in written] == places


@pytest.mark.slow
def test_what_another_process_has_written_is_read(state: Path) -> None:
    """No list and no size is remembered."""
    assert discovery.save(_found())
    place = discovery_file("my pipeline/ü")
    for partitions in (5, 1000):
        other = place.read().decode().replace('"partitions": 3', f'"partitions": {partitions}')
        script = (
            "import sys; from k2k_assets.core.state_path import StatePath; StatePath(sys.argv[1]).replace(sys.argv[2])"
        )
        subprocess.run([sys.executable, "-c", script, str(place), other], check=True, timeout=60)
        found = discovery.load("my pipeline/ü")
        assert found is not None
        assert found.topics["a.b"].partitions == partitions
        place.replace(other.replace(f'"partitions": {partitions}', '"partitions": 3'))


@pytest.mark.slow
@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (HOME_VARIABLE, "s3://another-bucket/k2k"),
        ("AWS_SECRET_ACCESS_KEY", "a wrong one"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
    ],
    ids=["no bucket", "no right", "nobody there"],
)
def test_a_store_that_refuses_stops_nobody(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(variable, value)
    with caplog.at_level(logging.WARNING):
        assert not discovery.save(_found())
    assert "cannot be remembered" in caplog.text
    assert discovery.load("my pipeline/ü") is None
    assert next_turn("a") >= 0
