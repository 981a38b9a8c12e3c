"""An instance that is killed within a transaction, driver and slot at once: it aborts and releases nothing."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial

from k2k_assets.pipeline import Pipeline
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.interface import Sink
from k2k_assets_tests.support.copies.copying import PROCESSES, copy, flush_transaction
from k2k_assets_tests.support.copies.steps import WrappedSink, sinks_wrapped

_SECONDS = 240.0

_starting = threading.Lock()


def run_and_kill(pipeline: Pipeline, at: int = 2) -> None:
    """Copies with one slot, in a process that is killed when a transaction is about to be committed.

    What that one holds (records, position, mapping) is on the target by then. The claims are left too.

    Args:
        pipeline: Which.
        at: Of the transactions with records, from 1.
    """
    with _starting:
        process = PROCESSES.Process(target=_run, args=(pipeline, at))
        process.start()
    process.join(_SECONDS)
    ended = process.exitcode
    process.kill()
    assert ended == -signal.SIGKILL, f"it was not killed: {ended}"


def _run(pipeline: Pipeline, at: int) -> None:
    with sinks_wrapped(pipeline, partial(_KillingSink, at=at)):
        copy(pipeline, cores=1)


class _KillingSink(WrappedSink):
    def __init__(self, sink: Sink, at: int) -> None:
        super().__init__(sink)
        self._at = at
        self._holds_records = False
        self._transactions = 0

    def write(self, chunk: Chunk) -> Sent:
        self._holds_records = True
        return super().write(chunk)

    def commit(self) -> None:
        self._transactions += self._holds_records
        self._holds_records = False
        if self._transactions == self._at:
            flush_transaction(self._sink, _SECONDS)
            os.kill(os.getpid(), signal.SIGKILL)
        super().commit()
