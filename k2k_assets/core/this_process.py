"""Names this process for people."""

from __future__ import annotations

import os
import socket


def this_process() -> str:
    """Host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"
