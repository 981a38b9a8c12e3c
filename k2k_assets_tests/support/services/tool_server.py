"""`k2k-tool server` as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMMAND = (sys.executable, "-m", "k2k_assets.cli.tool", "server", "-p", "0")


@contextmanager
def tool_server(*arguments: str | Path) -> Iterator[str]:
    """The address of a server, which never outlives the test.

    Args:
        arguments: Such as `-f` and a file.
    """
    command = [*COMMAND, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()
            assert address, f"it ended with {process.wait(10)}"
            yield address[0].rstrip("/")
        finally:
            process.kill()
