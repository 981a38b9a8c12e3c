"""The file from which an orchestrator reads why the program ended (Kubernetes' termination log)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from k2k_assets.cli.suggestions import with_files

DEFAULT = Path("/dev/termination-log")
# Kubernetes reads no more than this.
_LONGEST = 4096

_log = logging.getLogger("k2k.cli")


@contextmanager
def failure_written_to(path: Path, enabled: bool) -> Iterator[None]:
    """Writes the message of an error that passes through into a file.

    Args:
        path: The file. The default is only written if it exists, because only Kubernetes creates it.
        enabled: Whether to write at all.
    """
    try:
        yield
    except click.exceptions.Exit:
        raise
    except Exception as error:
        if enabled and (path != DEFAULT or path.exists()):
            _write(path, with_files(str(error)) or type(error).__name__)
        raise


def _write(path: Path, message: str) -> None:
    try:
        path.write_bytes(message.encode()[:_LONGEST])
    except OSError as error:
        _log.warning("the termination log %s cannot be written: %s", path, error.strerror)
