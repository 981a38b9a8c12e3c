"""Objects that are created only where there is none: on real servers, one that knows it and one that does not."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]
from s3fs import S3FileSystem  # type: ignore[import-untyped]

from k2k_assets.core.errors import K2KError, Refused
from k2k_assets.core.object_folder import ObjectFolder, _ensure_conditional
from k2k_assets.core.state_path import StoreError
from k2k_assets_tests.support.services import s3
from k2k_assets_tests.support.services.conditional_s3 import BUCKET, conditional_s3_server


@pytest.fixture
def memory() -> ObjectFolder:
    return ObjectFolder(f"memory://{uuid.uuid4().hex}/folder")


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    with conditional_s3_server() as variables:
        yield variables


@pytest.fixture
def in_s3(server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> ObjectFolder:
    _use(server, monkeypatch)
    return ObjectFolder(f"s3://{BUCKET}/{uuid.uuid4().hex}")


def _use(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    # Clients are kept by their arguments: not by the variables, which are others now.
    S3FileSystem.clear_instance_cache()


@pytest.mark.parametrize("where", ["memory", "in_s3"])
def test_what_a_folder_does(where: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    folder: ObjectFolder = request.getfixturevalue(where)
    assert (folder.names(), folder.names("a"), folder.newest("n")) == (set(), set(), None)
    with pytest.raises(FileNotFoundError):
        folder.read("a/b")
    with pytest.raises(FileNotFoundError):
        folder.download("a/b", tmp_path / "never")
    assert list(tmp_path.iterdir()) == [], "no temporary file is left"
    assert folder.create("a/b", b"one")
    assert not folder.create("a/b", b"other")
    assert folder.create("a/b", b"one"), "our own, of which the answer was lost"
    (tmp_path / "file").write_bytes(b"\x00" * 100_000)
    folder.upload("a/c/d", tmp_path / "file")
    folder.download("a/c/d", tmp_path / "new" / "copy")
    assert (tmp_path / "new" / "copy").read_bytes() == b"\x00" * 100_000
    assert (folder.names(), folder.names("a")) == ({"a/b", "a/c/d"}, {"b", "c/d"})
    folder.remove("a/b")
    folder.remove("a/b")
    assert folder.names() == {"a/c/d"}


@pytest.mark.parametrize("where", ["memory", "in_s3"])
def test_the_highest_number_counts(where: str, request: pytest.FixtureRequest) -> None:
    folder: ObjectFolder = request.getfixturevalue(where)
    for number in range(1, 13):
        assert folder.add("n", number, b"%d" % number)
        assert not folder.add("n", number, b"late")
        folder.forget("n", number)
    assert folder.newest("n") == (12, b"12")
    assert len(folder.names("n")) == 10
    assert not folder.add("n", 3, b"resurrected"), "one that was forgotten"
    assert folder.newest("n") == (12, b"12")


def test_of_many_that_create_one_object_one_succeeds(in_s3: ObjectFolder) -> None:
    won: list[int] = []

    def create(who: int) -> None:
        won.extend(number for number in range(10) if in_s3.create(f"n/{number}", b"%d" % who))

    threads = [threading.Thread(target=create, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(won) == list(range(10))


@pytest.mark.parametrize("lands", [True, False])
def test_an_answer_that_is_lost(memory: ObjectFolder, monkeypatch: pytest.MonkeyPatch, lands: bool) -> None:
    real = MemoryFileSystem.pipe_file

    def lost(self: Any, path: str, value: bytes, **rest: Any) -> None:
        if lands:
            real(self, path, value, **rest)
        raise ConnectionResetError("lost")

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", lost)
    if lands:
        assert memory.create("a", b"one")
    else:
        with pytest.raises(StoreError, match=r"/a cannot be created: .*lost"):
            memory.create("a", b"one")


def test_a_store_that_overwrites_is_refused(memory: ObjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = MemoryFileSystem.pipe_file
    monkeypatch.setattr(MemoryFileSystem, "pipe_file", lambda self, path, value, mode="": real(self, path, value))
    _ensure_conditional.cache_clear()
    with pytest.raises(Refused, match=r"overwrites an object .*let index\.path name a folder"):
        memory.add("n", 1, b"one")
    assert memory.names() == set()


@pytest.mark.slow
def test_a_real_server_that_overwrites_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3Proxy before version 3 ignores the condition without a word."""
    with s3.s3_server() as (variables, _):
        _use(variables, monkeypatch)
        folder = ObjectFolder(f"s3://{s3.BUCKET}/index")
        with pytest.raises(Refused, match="overwrites an object"):
            folder.add("n", 1, b"one")
        assert folder.names() == set()


def test_a_store_that_is_not_there_says_so(in_s3: ObjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    S3FileSystem.clear_instance_cache()
    monkeypatch.setattr("k2k_assets.core.state_path.STORE_SECONDS", 1.0)
    with pytest.raises(StoreError, match=rf"{in_s3}.*") as told:
        in_s3.add("n", 1, b"one")
    assert isinstance(told.value, K2KError)
    assert isinstance(told.value, OSError)
