"""Temporary directories of which everybody can tell whether their process is gone.

The process holds a lock on its directory (`flock`), which ends with it, however it ends. No process id would do: it may
be somebody else's by now, or one of another container that shares the directory for temporary files.
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
    """A new temporary directory; those that processes have left behind, which are gone, are removed first.

    Args:
        prefix: Of its name, and of theirs.

    Attributes:
        path: Where it is.
    """

    def __init__(self, prefix: str) -> None:
        self._removing = threading.Lock()
        _remove_left_over(prefix)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=prefix))
            with suppress(FileNotFoundError):
                self._lock = os.open(self.path, os.O_RDONLY)
                with suppress(OSError):  # where nothing can be locked, nobody removes what is not locked
                    fcntl.flock(self._lock, fcntl.LOCK_EX)
                if self.path.is_dir():
                    return
                os.close(self._lock)
            # Somebody took it for left over before it was locked.

    def remove(self) -> None:
        """Removes it; nothing happens if it was removed, also by another thread in the same moment."""
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
            continue  # somebody else's, or gone by now
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass  # its process lives
        finally:
            os.close(lock)
