"""Ends exporters within seconds: each makes a last export, and a collector that is away keeps no program for long."""

from __future__ import annotations

import threading
from collections.abc import Callable

from k2k_assets.core.deadline import Deadline

TOGETHER_SECONDS = 5.0
"""How long all exporters of a program have together."""
EACH_SECONDS = 1.0
"""How long each one has at least."""


class LastExports:
    """Lets the exporters of a program end, one after the other. SIGKILL usually follows SIGTERM in 30 seconds."""

    def __init__(self) -> None:
        self._deadline: Deadline | None = None

    def end(self, shutdown: Callable[[], object]) -> None:
        """Calls what ends an exporter; one that takes too long goes on in the background, and ends with the process.

        Args:
            shutdown: Makes the last export, with patience of its own: the SDK waits for half a minute.
        """
        self._deadline = self._deadline or Deadline(TOGETHER_SECONDS)
        thread = threading.Thread(target=shutdown, name="telemetry-ends", daemon=True)
        thread.start()
        thread.join(max(EACH_SECONDS, self._deadline.remaining()))
