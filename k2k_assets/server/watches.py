"""All pipelines of the server by their names in addresses."""

from __future__ import annotations

import threading
import time

from k2k_assets.pipeline import Pipeline
from k2k_assets.server.pipeline_files import LoadedFiles, PipelineFiles
from k2k_assets.server.watch import PipelineWatch

_FILES_SECONDS = 1.0


class Watches:
    """Follows the files, and keeps a watch for each pipeline.

    Args:
        files: Where the pipelines are.
    """

    def __init__(self, files: PipelineFiles) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._loaded: list[LoadedFiles] = []
        self._loaded_at = -_FILES_SECONDS
        self._watches: dict[str, PipelineWatch] = {}

    def loaded(self) -> list[LoadedFiles]:
        """All pipelines, also those whose files have faults."""
        with self._lock:
            if time.monotonic() - self._loaded_at >= _FILES_SECONDS:
                self._loaded = self._files.current()
                self._loaded_at = time.monotonic()
                self._follow({one.id: one.pipeline for one in self._loaded if one.pipeline})
            return self._loaded

    def find(self, name: str) -> tuple[LoadedFiles, PipelineWatch] | None:
        """A pipeline by its name in addresses; None if there is none that can be used."""
        found = next((one for one in self.loaded() if one.pipeline and one.id == name), None)
        watch = self._watches.get(name)
        return (found, watch) if found and watch else None

    def close_idle(self) -> None:
        """Closes the clients of pipelines that nobody looks at."""
        for watch in list(self._watches.values()):
            watch.close_if_idle()

    def close(self) -> None:
        """Closes all clients for good."""
        for watch in list(self._watches.values()):
            watch.retire()

    def _follow(self, pipelines: dict[str, Pipeline]) -> None:
        gone = [name for name, watch in self._watches.items() if pipelines.get(name) is not watch.pipeline]
        for name in gone:
            # It may be reading just now, which ends by its own deadlines.
            threading.Thread(target=self._watches.pop(name).retire, daemon=True).start()
        for name, pipeline in pipelines.items():
            self._watches.setdefault(name, PipelineWatch(pipeline))
