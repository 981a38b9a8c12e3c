"""Temporary directories that show whether their process still lives.

The process locks its directory (`flock`); the lock ends with the process, however that ends. A process id would not do:
another process may have it by now, or it may belong to another container that shares the temporary directory.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path


class OwnedDirectory:
    """Makes a temporary directory, and first removes those that dead processes have left behind.

    Args:
        prefix: Prefix of the names of these directories.

    Attributes:
        path: Path of the directory.
    """

    def __init__(self, prefix: str) -> None:
        self._removing = threading.Lock()
        _remove_left_over(prefix)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix))
            with suppress(FileNotFoundError):
                self._lock = os.open(self.path, os.O_RDONLY)
                with suppress(OSError):  # on a file system without locks, no process removes unlocked directories
                    fcntl.flock(self._lock, fcntl.LOCK_EX)
                if self.path.is_dir():
                    return
                os.close(self._lock)
            # Another process took it for left over before it was locked: try again.

    def remove(self) -> None:
        """Removes the directory; does nothing if it is removed, even by another thread at the same moment."""
        with self._removing:
            lock, self._lock = self._lock, -1
        if lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(lock)


def _remove_left_over(prefix: str) -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        try:
            lock = os.open(path, os.O_RDONLY)
        except OSError:
            continue  # another user's directory, or removed by now
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass  # the lock is held: its process lives
        finally:
            os.close(lock)
