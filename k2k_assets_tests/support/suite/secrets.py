"""Searches everything that programs write, and the arguments of all processes, for secrets."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from types import TracebackType

import psutil

_POLL_SECONDS = 0.3
_READABLE_BY_OTHERS = stat.S_IRGRP | stat.S_IROTH


class SecretsSearch:
    """Looks again and again while programs run, and once more at the end.

    Args:
        secrets: What must not be found, by a name.
        folder: Where the programs write.

    Attributes:
        programs: Words of the arguments of this process's children: a search that saw none proves nothing.
        in_arguments: Secrets that were seen in a process's arguments, with the process's name.
        in_open_files: Files below the folder that others could read, and that held a secret at any time.
    """

    def __init__(self, secrets: Mapping[str, bytes], folder: Path) -> None:
        self.programs: set[str] = set()
        self.in_arguments: set[tuple[str, str]] = set()
        self.in_open_files: set[Path] = set()
        self._secrets = dict(secrets)
        self._folder = folder
        self._seen: dict[Path, tuple[int, int]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> SecretsSearch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(30)

    def found_in(self, content: bytes) -> set[str]:
        """The names of the secrets in a content."""
        return {name for name, secret in self._secrets.items() if secret in content}

    def in_files(self) -> set[Path]:
        """The files below the folder that hold a secret now."""
        files = (path for path in self._folder.rglob("*") if path.is_file())
        return {path for path in files if any(map(self.found_in, _contents(path)))}

    def _look_on(self) -> None:
        while not self._ended.wait(_POLL_SECONDS):
            self._look_at_processes()
            self._look_at_open_files()

    def _look_at_processes(self) -> None:
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                arguments = process.cmdline()
                self.programs |= set(arguments)
                for name in self.found_in("\0".join(arguments).encode()):
                    self.in_arguments.add((name, process.name()))

    def _look_at_open_files(self) -> None:
        paths = (Path(folder) / name for folder, _, names in os.walk(self._folder) for name in names)
        for path in paths:  # `rglob` would end at a folder that goes meanwhile
            with suppress(OSError):  # gone since
                found = path.stat()
                changed = (found.st_size, found.st_mtime_ns)
                if (
                    stat.S_ISREG(found.st_mode)
                    and found.st_mode & _READABLE_BY_OTHERS
                    and changed != self._seen.get(path)
                ):
                    self._seen[path] = changed
                    if self.found_in(path.read_bytes()):
                        self.in_open_files.add(path)


def _contents(path: Path) -> Iterator[bytes]:
    """What is in a file; of a database also each value, as Dagster compresses some."""
    content = path.read_bytes()
    yield content
    if not content.startswith(b"SQLite format 3\0"):
        return
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for value in chain.from_iterable(database.execute(f'SELECT * FROM "{table}"')):
                if isinstance(value, str):
                    yield value.encode()
                elif isinstance(value, bytes):
                    yield value
                    with suppress(zlib.error):
                        yield zlib.decompress(value)
