"""Files and folders, on this machine or in an object store that fsspec knows (S3, Google Cloud Storage, Azure, ...).

Of a store two things are asked: an object is put as a whole, and whoever reads it after that finds it. Both hold in the
stores that are named here, and not in what else fsspec knows (SFTP, SMB, HTTP): a reader there may meet half a file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from k2k_assets.core.atomic_file import write_atomically
from k2k_assets.core.errors import K2KError, Refused

T = TypeVar("T")

# By the scheme of the address: what has to be installed for it. `memory` is fsspec's own, within one process.
STORES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "memory": "fsspec",
}
# For one small object. A tick of a sensor reads two and writes one.
STORE_SECONDS = 15.0


class StoreError(K2KError, OSError):
    """An object store refuses something, or does not answer."""


@dataclass(frozen=True, slots=True)
class StatePath:
    """A file or a folder.

    Attributes:
        address: An absolute path, or the address of a store, such as `s3://bucket/k2k`.
    """

    address: str

    @classmethod
    def of(cls, said: str, setting: str) -> StatePath:
        """What somebody has set.

        Args:
            said: A path, with `~` as the home directory, or an address.
            setting: Names it in errors.

        Raises:
            K2KError: The user has no home directory, as in a container under any uid.
            Refused: It is an address of something that is no object store.
        """
        if "://" not in said:
            return cls(str(expanded(said, setting).absolute()))
        scheme = said.partition("://")[0].lower()
        if scheme == "file":
            return cls(str(Path(unquote(urlsplit(said).path)).absolute()))
        if scheme not in STORES:
            raise Refused(
                f"{setting}: {said} is neither a path nor an address of an object store ({', '.join(STORES)}): "
                "elsewhere a reader may meet half a file"
            )
        return cls(said.rstrip("/"))

    def __truediv__(self, name: str) -> StatePath:
        """What lies in this folder.

        Args:
            name: Its name.
        """
        return StatePath(f"{self.address.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self.address

    @property
    def local(self) -> Path | None:
        """The path; None in a store."""
        return None if "://" in self.address else Path(self.address)

    def read(self) -> bytes:
        """What the file holds.

        Raises:
            FileNotFoundError: There is none.
            OSError: It cannot be read.
        """
        if (path := self.local) is not None:
            return path.read_bytes()
        content: bytes = asked(self.address, lambda store, at: store.cat_file(at))
        return content

    def replace(self, content: str | bytes) -> None:
        """Writes the file: a reader, or a crash, sees the old one or the new one and nothing between.

        Args:
            content: Text is written as UTF-8.

        Raises:
            OSError: It cannot be written.
        """
        if (path := self.local) is not None:
            write_atomically(path, content)
            return
        data = content.encode("utf-8") if isinstance(content, str) else content
        asked(self.address, lambda store, at: store.pipe_file(at, data))


def asked(address: str, question: Callable[[Any, str], T], seconds: float | None = None) -> T:
    """Asks a store in a thread of its own, because some clients try again for minutes.

    Args:
        address: The address of an object or a folder.
        question: Called with fsspec's file system, and the path in it.
        seconds: How long to wait; None: `STORE_SECONDS`. What was asked may still happen after that.

    Raises:
        FileNotFoundError: There is no such object.
        FileExistsError: There is one, and there must be none.
        StoreError: The store refuses, or does not answer.
    """
    within = STORE_SECONDS if seconds is None else seconds
    answer: Future[T] = Future()

    def ask() -> None:
        try:
            store, at = _store(address)
            answer.set_result(question(store, at))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, name="k2k-store", daemon=True).start()
    # Not an `except` of the answer: a store's client raises TimeoutError as well.
    if not wait([answer], within).done:
        raise StoreError(f"{address} does not answer within {within:g} s")
    try:
        return answer.result()
    except (FileNotFoundError, FileExistsError, StoreError):
        raise
    except Exception as error:  # each store's client has errors of its own
        raise StoreError(f"{address}: {type(error).__name__}: {error}") from error


def expanded(path: str, setting: str) -> Path:
    """A path, with `~` as the home directory.

    Args:
        path: As it was configured, or a default.
        setting: What names another path.

    Raises:
        K2KError: The user has no home directory, as in a container under any uid.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise K2KError(
            f"{path}: the home directory is not known ({error}). Set {setting} to an absolute path that can be "
            "written, or set HOME."
        ) from None


def _store(address: str) -> tuple[Any, str]:
    """The store of an address, and the path in it; settings are those of fsspec (`FSSPEC_...`) and of its client."""
    # Not for who keeps all on this machine.
    from fsspec import url_to_fs  # type: ignore[import-untyped]

    try:
        store, at = url_to_fs(address, use_listings_cache=False)
    except ImportError as error:
        needs = STORES[address.partition("://")[0].lower()]
        raise StoreError(f"{address} needs the package {needs}, which is not installed ({error})") from None
    return store, str(at)
