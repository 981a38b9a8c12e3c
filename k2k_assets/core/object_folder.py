"""A folder in an object store: objects that never change, and numbered ones of which the highest counts.

Nothing is replaced here. So nothing has to be locked, and what a stalled process does after its time does no harm: it
puts an object under a name of its own, or fails to create a number that somebody else has taken.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from k2k_assets.core.errors import Refused
from k2k_assets.core.state_path import StoreError, asked

T = TypeVar("T")

# For one large object.
TRANSFER_SECONDS = 300.0
# Numbers that are kept for a reader who has listed them and not read yet.
_NUMBERS_KEPT = 10
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class ObjectFolder:
    """A folder in an object store. It can be sent to Spark tasks.

    Attributes:
        address: Such as `s3://bucket/k2k/index/orders`.
    """

    address: str

    def __str__(self) -> str:
        return self.address

    def __truediv__(self, name: str) -> ObjectFolder:
        return ObjectFolder(f"{self.address}/{name}")

    def read(self, name: str) -> bytes:
        """What an object holds.

        Raises:
            FileNotFoundError: There is none.
            StoreError: It cannot be read.
        """
        content: bytes = self._asked(name, lambda store, at: store.cat_file(at))
        return content

    def create(self, name: str, content: bytes) -> bool:
        """Puts an object where there is none: of several processes that do so at once, one succeeds.

        Args:
            name: Its name.
            content: What it holds. It should be unique: who finds just this there takes it for its own.

        Returns:
            Whether it lies there; if not, another one does.

        Raises:
            StoreError: It cannot be written, or it is not known whether it is.
        """
        try:
            self._asked(name, lambda store, at: store.pipe_file(at, content, mode="create"))
        except OSError as error:
            # Not every client says by its error that there is one; and our own may lie there: the answer was lost.
            try:
                return self.read(name) == content
            except FileNotFoundError:
                raise StoreError(f"{self / name} cannot be created: {error}") from error
        return True

    def names(self, folder: str = "") -> set[str]:
        """Names of all objects in a folder below this one, with those in its own folders, such as `a/b.parquet`.

        Raises:
            StoreError: They cannot be listed.
        """
        address = self / folder if folder else self

        def find(store: Any, at: str) -> set[str]:
            start = at.rstrip("/") + "/"
            return {path[len(start) :] for path in store.find(at) if path.startswith(start)}

        return asked(str(address), find)

    def remove(self, name: str) -> None:
        """Removes an object, if it is there.

        Raises:
            StoreError: It cannot be removed.
        """
        with suppress(FileNotFoundError):
            self._asked(name, lambda store, at: store.rm_file(at))

    def upload(self, name: str, file: Path) -> None:
        """Puts a file as an object.

        Raises:
            StoreError: It cannot be written.
        """
        self._asked(name, lambda store, at: store.put_file(str(file), at), TRANSFER_SECONDS)

    def download(self, name: str, file: Path) -> None:
        """Gets an object as a file, which is there as a whole or not at all.

        Raises:
            FileNotFoundError: There is no such object.
            OSError: It cannot be read, or the file cannot be written.
        """
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".", dir=file.parent)
        os.close(handle)
        try:
            self._asked(name, lambda store, at: store.get_file(at, temporary), TRANSFER_SECONDS)
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
            os.replace(temporary, file)
        finally:
            Path(temporary).unlink(missing_ok=True)

    def newest(self, folder: str) -> tuple[int, bytes] | None:
        """The highest of the numbered objects in a folder, and what it holds; None if there is none.

        Raises:
            StoreError: It cannot be read.
        """
        for _ in range(_ATTEMPTS):
            number = self._highest(folder)
            if number is None:
                return None
            # It may be removed between the two, when it is no longer the highest.
            with suppress(FileNotFoundError):
                return number, self.read(_numbered(folder, number))
        raise StoreError(f"{self / folder}: what is listed there is not there")

    def add(self, folder: str, number: int, content: bytes) -> bool:
        """Adds a numbered object; it has to become the highest.

        Args:
            folder: Its folder.
            number: Its number.
            content: What it holds, which must be unique.

        Returns:
            Whether it is the highest now; if not, somebody else was quicker.

        Raises:
            Refused: The store does not create objects on condition that there is none.
            StoreError: It cannot be written, or it is not known whether it is.
        """
        _ensure_conditional(self)
        # A number that was removed long ago can be created again, by who slept meanwhile.
        return self.create(_numbered(folder, number), content) and self._highest(folder) == number

    def forget(self, folder: str, number: int) -> None:
        """Removes numbered objects that nobody reads any more.

        Args:
            folder: Their folder.
            number: One that was the highest.
        """
        for old in self._numbers(folder):
            if old <= number - _NUMBERS_KEPT:
                self.remove(_numbered(folder, old))

    def _highest(self, folder: str) -> int | None:
        return max(self._numbers(folder), default=None)

    def _numbers(self, folder: str) -> list[int]:
        stems = (name.removesuffix(".json") for name in self.names(folder))
        return [int(stem) for stem in stems if stem.isdecimal()]

    def _asked(self, name: str, question: Callable[[Any, str], T], seconds: float | None = None) -> T:
        return asked(f"{self.address}/{name}", question, seconds)


def _numbered(folder: str, number: int) -> str:
    return f"{folder}/{number:08}.json"


@lru_cache
def _ensure_conditional(folder: ObjectFolder) -> None:
    """Tries, once in a process, whether the store refuses to create what is there: not all that speak S3 do."""
    name = f"probe-{uuid.uuid4().hex}"
    try:
        if folder.create(name, b"one") and not folder.create(name, b"another"):
            return
    finally:
        folder.remove(name)
    raise Refused(
        f"{folder}: this store overwrites an object that must only be created where there is none (If-None-Match), so "
        "two processes would spoil each other's work. Use one that knows conditional writes, as Amazon S3, Google's "
        "and Azure's do, or let index.path name a folder"
    )
