"""Calls functions of users in a process of their own: one that hangs or ends its process does no harm to others.

The process is started anew, not forked: this one has threads of its clients. It imports what the functions need, and
nothing else. After it was ended, or has ended, the next call starts another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from k2k_assets.functions import child
from k2k_assets.functions.answers import (
    Call,
    FunctionCrashed,
    FunctionCrashesOften,
    FunctionError,
    FunctionFailed,
    FunctionNotLoaded,
    FunctionResult,
    FunctionTimedOut,
)
from k2k_assets.functions.crash_limit import CrashLimit
from k2k_assets.functions.frames import INTERVAL_SECONDS, Closed, Frame
from k2k_assets.functions.module_source import not_imported
from k2k_assets.functions.running import RunningFunctions
from k2k_assets.functions.watch import LOADING_SECONDS, CallWatch, GivenRecords, RuleFunction

if TYPE_CHECKING:
    import pyarrow as pa

MOST_CRASHES = 3
"""How often the process may end at one record, or at the import of a module, before that is held to be the reason: it
may have ended for reasons of its own."""
_FORGET_SECONDS = 60.0


class FunctionProcess:
    """Functions in one process, which ends with this object, and with the thread that started it.

    A module is imported there when the first of its functions is called: one that cannot be imported spoils no others.
    Use it in one thread only.

    Args:
        functions: The functions.
        folders: Where their modules are looked for, beside Python's own path.
        limit: How often it may end for a topic; None: any number of times.

    Attributes:
        while_waiting: Called a few times a second while functions run, also between calls that are shorter. What it
            raises ends the process of the function, and leaves the call.
    """

    def __init__(
        self, functions: Sequence[RuleFunction], folders: Sequence[str], limit: CrashLimit | None = None
    ) -> None:
        self._functions, self._folders, self._limit = functions, folders, limit
        self._running: RunningFunctions | None = None
        self._failed_imports = FailedImports()
        self._loading_seconds = LOADING_SECONDS
        self.while_waiting: Callable[[], object] = lambda: None
        self._last_look = self._unwatched = 0.0

    def call_of(self, number: int) -> Call:
        """Calls the function of that number.

        Raises:
            FunctionError: There is no answer; a function that crashed or timed out has no process any more.
        """
        return partial(self._call, number)

    def start(self) -> None:
        """Starts the process; it loads the functions while the caller does other things, if they are of one module."""
        if self._running is None:
            self._running = RunningFunctions(self._functions, self._folders)
            if len({function.module for function in self._functions}) == 1:
                self._running.ask_for(0)

    def load(self, number: int) -> None:
        """Loads the function of that number, before it is called.

        Raises:
            FunctionError: It cannot be loaded.
        """
        self._loaded(number, partial(self._look_at_import, time.monotonic() + self._loading_seconds))

    def close(self) -> None:
        """Ends the process."""
        running, self._running = self._running, None
        if running is not None:
            running.close()

    def _look_at_import(self, ends: float) -> None:
        if time.monotonic() >= ends:
            raise FunctionTimedOut(self._loading_seconds, self._place())

    def _place(self) -> str:
        return self._running.place() if self._running else ""

    def _call(self, number: int, given: pa.RecordBatch) -> FunctionResult:
        watch = CallWatch(self._functions[number], given, self._place, loading=self._loading_seconds)

        def meanwhile() -> None:
            watch.look()
            self._look()

        began = time.monotonic()
        try:
            if self._unwatched >= INTERVAL_SECONDS:  # of many short calls none waits so long
                self._look()
            running = self._loaded(number, meanwhile)
            watch.loaded()
            frame = running.answer(number, given, meanwhile)
        except Closed:
            words = self._crashed()
            watch.crashed(words)
            if self._limit and self._limit.is_reached(GivenRecords.of(given).source.topic):
                raise FunctionCrashesOften(words) from None
            raise FunctionCrashed(words) from None
        except FunctionNotLoaded:
            raise
        except BaseException as error:
            self.close()
            if not isinstance(error, FunctionTimedOut):
                watch.abandoned()
            raise
        finally:
            self._unwatched += time.monotonic() - max(began, self._last_look)
        if frame.kind == "failed":
            raise FunctionFailed(bytes(frame.body).decode())
        return FunctionResult(range(given.num_rows)) if frame.kind == "all" else _read(frame)

    def _look(self) -> None:
        self._unwatched = 0.0
        self.while_waiting()
        self._last_look = time.monotonic()

    def _loaded(self, number: int, meanwhile: Callable[[], object]) -> RunningFunctions:
        """The process, which has loaded a function.

        Raises:
            FunctionNotLoaded: It cannot load it.
            FunctionTimedOut: It does not come to an end with it.
        """
        module = self._functions[number].module
        self._failed_imports.raise_for(module)
        words = ""
        for _ in range(MOST_CRASHES):
            self.start()
            running = cast(RunningFunctions, self._running)
            try:
                running.load(number, meanwhile)
            except Closed:
                words = self._crashed()
            except FunctionNotLoaded as error:
                self._failed_imports.note(module, error)
                raise
            except FunctionTimedOut as error:
                self.close()
                self._failed_imports.note(module, error)
                raise
            else:
                return running
        why = f"its process ended {MOST_CRASHES} times in a row ({words})"
        fault = FunctionNotLoaded(not_imported(module, why))
        self._failed_imports.note(module, fault)
        raise fault

    def _crashed(self) -> str:
        """Leaves a process that has ended; returns how it did."""
        words = self._running.exit_words() if self._running else ""
        self.close()
        return words


class FailedImports:
    """Modules that could not be imported lately: functions of other topics need not wait for the same."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, FunctionError]] = {}

    def note(self, module: str, fault: FunctionError) -> None:
        """Notes why a module could not be imported."""
        self._known[module] = time.monotonic() + _FORGET_SECONDS, fault

    def raise_for(self, module: str) -> None:
        """Raises what is known of a module, if that is not long ago."""
        until, fault = self._known.get(module, (0.0, None))
        if fault is not None and time.monotonic() < until:
            raise fault.with_traceback(None)


def _read(frame: Frame) -> FunctionResult:
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(frame.body)) as reader:
        batch = reader.read_next_batch()
    columns = {name: batch.column(name) for name in batch.schema.names if name != child.ROW}
    return FunctionResult(batch.column(child.ROW).to_pylist(), columns)
