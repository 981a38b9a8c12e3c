"""Calls functions of users in a process of their own: one that hangs or ends its process does no harm to others.

The process is started anew, not forked: this one has threads of its clients. It imports what the functions need, and
nothing else. After it was ended, or has ended, the next call starts another one.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, cast

from k2k_assets.core.errors import Refused
from k2k_assets.functions import answers, child
from k2k_assets.functions.answers import Call, FunctionCrashed, FunctionFailed, FunctionResult, FunctionTimedOut
from k2k_assets.functions.frames import Closed, Frame, Frames
from k2k_assets.functions.watch import CallWatch, RuleFunction, place_of

if TYPE_CHECKING:
    import pyarrow as pa

_ENDING_SECONDS = 1.0
_STACK_SECONDS = 0.5


class FunctionProcess:
    """Functions in one process, which ends with this object, and with the thread that started it.

    Use it in one thread only.

    Args:
        functions: The functions.
        folders: Where their modules are looked for, beside Python's own path.

    Attributes:
        while_waiting: Called a few times a second while a function runs. What it raises ends the process of the
            function, and leaves the call.
    """

    def __init__(self, functions: Sequence[RuleFunction], folders: Sequence[str]) -> None:
        self._functions, self._folders = functions, folders
        self._running: _Process | None = None
        self.while_waiting: Callable[[], object] = lambda: None

    def call_of(self, number: int) -> Call:
        """Calls the function of that number.

        Raises:
            FunctionError: There is no answer; a function that crashed or timed out has no process any more.
            Refused: The functions cannot be loaded.
        """
        return partial(self._call, number)

    def start(self) -> None:
        """Starts the process; it loads the functions while the caller does other things."""
        if self._running is None:
            self._running = _Process(self._functions, self._folders)

    def close(self) -> None:
        """Ends the process."""
        running, self._running = self._running, None
        if running is not None:
            running.close()

    def _call(self, number: int, given: pa.RecordBatch) -> FunctionResult:
        self.start()
        running = cast(_Process, self._running)
        watch = CallWatch(self._functions[number], given, running.place)

        def meanwhile() -> None:
            watch.look()
            self.while_waiting()

        try:
            running.await_ready(meanwhile)
            watch.loaded()
            frame = running.answer(number, given, meanwhile)
        except Closed:
            words = running.exit_words()
            self.close()
            watch.crashed(words)
            raise FunctionCrashed(words) from None
        except BaseException as error:
            self.close()
            if not isinstance(error, FunctionTimedOut | Refused):
                watch.abandoned()
            raise
        if frame.kind == "failed":
            raise FunctionFailed(bytes(frame.body).decode())
        return FunctionResult(range(given.num_rows)) if frame.kind == "all" else _read(frame)


def _read(frame: Frame) -> FunctionResult:
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(frame.body)) as reader:
        batch = reader.read_next_batch()
    columns = {name: batch.column(name) for name in batch.schema.names if name != child.ROW}
    return FunctionResult(batch.column(child.ROW).to_pylist(), columns)


class _Process:
    """One process.

    Args:
        functions: What it loads.
        folders: From where.
    """

    def __init__(self, functions: Sequence[RuleFunction], folders: Sequence[str]) -> None:
        self._stacks = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115  # closed with the process
        self._is_ready = self._has_schema = False
        known = {"functions": [(f.name, f.code) for f in functions], "folders": list(folders)}
        own, other = socket.socketpair()
        self._frames = Frames(own)
        modules = os.pathsep.join(path or os.getcwd() for path in sys.path)
        arguments = [other.fileno(), self._stacks.fileno(), os.getpid()]
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", child.__name__, *map(str, arguments)],
                env={**os.environ, "PYTHONPATH": modules},
                pass_fds=arguments[:2],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what a function prints is seen, and disturbs no output
                start_new_session=True,  # signals of a terminal are for its parent
            )
        self._end = weakref.finalize(self, _end, self._process)
        with suppress(Closed):  # if the process has ended already, the first call finds out
            self._frames.send(Frame("functions", 0, json.dumps(known).encode()))

    def answer(self, number: int, given: pa.RecordBatch, meanwhile: Callable[[], object]) -> Frame:
        """Calls a function.

        Raises:
            Closed: The process has ended.
        """
        self._frames.meanwhile = meanwhile
        if not self._has_schema:
            self._frames.send(Frame("schema", 0, memoryview(given.schema.serialize())))
            self._has_schema = True
        self._frames.send(Frame("call", number, memoryview(given.serialize())))
        return self._frames.receive()

    def place(self) -> str:
        """Where its function is, by its stack; empty if it does not tell."""
        if not self._is_ready:
            return "the import of its module"
        before = self._size()
        with suppress(OSError):
            os.kill(self._process.pid, child.STACK_SIGNAL)
        deadline, known = time.monotonic() + _STACK_SECONDS, before
        while time.monotonic() < deadline:
            time.sleep(0.02)
            if known == (known := self._size()) and known > before:
                break
        stack = os.pread(self._stacks.fileno(), known - before, before).decode(errors="replace")
        return place_of(stack.splitlines(), answers.__file__)

    def exit_words(self) -> str:
        """How it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_SECONDS)
        code = self._process.poll()
        if code is None or code >= 0:
            return "it closed its connection" if code is None else f"exit code {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"{name}, perhaps because memory was short" if code == -signal.SIGKILL else name

    def close(self) -> None:
        """Ends it."""
        self._end()
        self._frames.close()
        self._stacks.close()

    def await_ready(self, meanwhile: Callable[[], object]) -> None:
        """Waits until the functions are loaded.

        Raises:
            Closed: The process has ended.
            Refused: It cannot load them.
        """
        if self._is_ready:
            return
        self._frames.meanwhile = meanwhile
        frame = self._frames.receive()
        if frame.kind == "refused":
            raise Refused(bytes(frame.body).decode())
        self._is_ready = True

    def _size(self) -> int:
        return os.fstat(self._stacks.fileno()).st_size


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
