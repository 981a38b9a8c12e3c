"""`k2k-tool server` as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

COMMAND = (sys.executable, "-m", "k2k_assets.cli.tool", "server", "-p", "0")


@contextmanager
def tool_server(*arguments: str | Path, command: Sequence[str] = COMMAND) -> Iterator[str]:
    """The address of a server, which never outlives the test.

    Args:
        arguments: Such as `-f` and a file.
        command: How it is run, at a port of its own.
    """
    whole = [*command, *map(str, arguments)]
    with subprocess.Popen(whole, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()
            assert address, f"it ended with {process.wait(10)}"
            yield address[0].rstrip("/")
        finally:
            process.kill()
