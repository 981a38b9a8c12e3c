"""Turns errors of the disk that should hold the index into messages, in the driver and in the tasks of a job."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from k2k_assets.core.state_path import StoreError
from k2k_assets.mapping.index.manifest import IndexUnusable
from k2k_assets.mapping.index.roots import IndexRoot

# Error numbers of a disk; other system errors, such as a broken connection, are not about it.
_OF_THE_DISK = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.EIO,
        errno.ENOTDIR,
        errno.EEXIST,
    }
)
# The last line of a Python traceback from a Spark task.
_OF_A_TASK = re.compile(r"^\s*\w+: \[Errno (\d+)\]", re.MULTILINE)
_STORE_OF_A_TASK = re.compile(r"^\s*[\w.]*\bStoreError: (.+)$", re.MULTILINE)


@contextmanager
def storage_errors_as_messages(root: IndexRoot) -> Iterator[None]:
    """Turns errors of the disk, or of the object store, into one that says what to do.

    Args:
        root: Directory of the index.

    Raises:
        IndexUnusable: The directory cannot be written; the index is unchanged.
    """
    try:
        yield
    except StoreError as error:
        raise _unreachable(root, str(error)) from None
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise
        raise _unusable(root, error.errno) from None
    except PySparkException as error:
        if of_store := _STORE_OF_A_TASK.search(str(error)):
            raise _unreachable(root, of_store[1]) from None
        of_task = _OF_A_TASK.search(str(error))
        if of_task is None or int(of_task[1]) not in _OF_THE_DISK:
            raise
        raise _unusable(root, int(of_task[1])) from None


def _unusable(root: IndexRoot, number: int) -> IndexUnusable:
    return IndexUnusable(
        f"the mapping index in {root} cannot be written: {os.strerror(number)}. It is what it was before, and the next "
        "update goes on from there: free space, or let index.path name a directory that drivers and executors may write"
    )


def _unreachable(root: IndexRoot, what: str) -> IndexUnusable:
    return IndexUnusable(
        f"the mapping index in {root} cannot be read or written: {what}. It is what it was before, and the next update "
        "goes on from there: look at the store's address, and at its keys in the environment of driver and executors"
    )
