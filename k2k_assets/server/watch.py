"""The status of one pipeline for those who look at it: read when somebody asks, at most once a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from k2k_assets.core.errors import K2KError
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.pipeline import Pipeline
from k2k_assets.status.copy_reader import CopyReader
from k2k_assets.status.copy_status import CopyStatus

_FRESH_SECONDS = 1.0
_IDLE_SECONDS = 60.0
# Who asks while another one reads waits no longer than this, and is told what is known.
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True)
class WatchedStatus:
    """What is known of a pipeline.

    Attributes:
        status: The newest status; None if there is none yet.
        error: Why it could not be read again; empty if it could.
    """

    status: CopyStatus | None = None
    error: str = ""


class StatusClients:
    """The clients of one pipeline, and its reader.

    Args:
        pipeline: The pipeline.

    Raises:
        ClusterUnreachable: A cluster does not answer.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        with ExitStack() as stack:
            source, target = stack.enter_context(both_clusters(pipeline))
            self._reader = stack.enter_context(CopyReader(pipeline, source, target))
            self._open = stack.pop_all()

    def read(self) -> CopyStatus:
        """Reads the present status."""
        return self._reader.read()

    def close(self) -> None:
        """Closes the clients."""
        self._open.close()


class PipelineWatch:
    """Keeps the clients of a pipeline open as long as somebody looks at it.

    Args:
        pipeline: The pipeline.
        open_clients: Makes the reader, anew after each error.
    """

    def __init__(self, pipeline: Pipeline, open_clients: Callable[[Pipeline], StatusClients] = StatusClients) -> None:
        self.pipeline = pipeline
        self._open_clients = open_clients
        self._lock = threading.Lock()
        self._clients: StatusClients | None = None
        self._known = WatchedStatus()
        self._read_at = self._asked_at = -_IDLE_SECONDS
        self._is_retired = False

    def refresh(self) -> WatchedStatus:
        """The status, not older than a second unless it takes longer to read it."""
        self._asked_at = time.monotonic()
        if not self._lock.acquire(timeout=_PATIENCE_SECONDS):
            return replace(self._known, error=self._known.error or "the clusters are still being asked")
        try:
            if time.monotonic() - self._read_at >= _FRESH_SECONDS and not self._is_retired:
                self._known = self._read()
                self._read_at = time.monotonic()
            return self._known
        finally:
            self._lock.release()

    def invalidate(self) -> None:
        """What is known counts as old, because something was changed."""
        self._read_at = -_IDLE_SECONDS

    def close_if_idle(self) -> None:
        """Closes the clients if nobody has asked for a minute."""
        if time.monotonic() - self._asked_at >= _IDLE_SECONDS:
            self.close()

    def retire(self) -> None:
        """Closes the clients for good, because the pipeline's file has changed: who still holds this opens none."""
        self._is_retired = True
        self.close()

    def close(self) -> None:
        """Closes the clients; a later look opens others."""
        if self._lock.acquire(timeout=_PATIENCE_SECONDS):
            try:
                self._close_clients()
            finally:
                self._lock.release()

    def _read(self) -> WatchedStatus:
        try:
            self._clients = self._clients or self._open_clients(self.pipeline)
            return WatchedStatus(self._clients.read())
        except K2KError as error:
            self._close_clients()
            return WatchedStatus(self._known.status, str(error))

    def _close_clients(self) -> None:
        reading, self._clients = self._clients, None
        if reading:
            reading.close()
