"""Work that goes on in a thread of its own while a block of a test lasts."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from k2k_assets_tests.support.brokers.kafka import SECONDS


class Background(ABC):
    """Works until the block ends.

    Args:
        name: Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._end = threading.Event()
        self._at_work = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @contextmanager
    def going_on(self) -> Iterator[Self]:
        """Works while the block lasts."""
        self._thread.start()
        try:
            yield self
        finally:
            self._end.set()
            self._thread.join(3 * SECONDS)
            assert not self._thread.is_alive()

    @abstractmethod
    def _run(self) -> None:
        """Works until `_end` is set; holds `_at_work` meanwhile."""
