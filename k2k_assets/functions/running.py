"""One process for functions of users: what it is asked, and how it ends."""

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
from typing import TYPE_CHECKING, BinaryIO, cast

from k2k_assets.functions import answers, child, user_code
from k2k_assets.functions.answers import FunctionNotLoaded
from k2k_assets.functions.frames import Closed, Frame, Frames
from k2k_assets.functions.watch import RuleFunction, place_of

if TYPE_CHECKING:
    import pyarrow as pa

_ENDING_SECONDS = 1.0
_STACK_SECONDS = 0.5


class RunningFunctions:
    """One process with functions.

    Args:
        functions: What it may load.
        folders: From where.
    """

    def __init__(self, functions: Sequence[RuleFunction], folders: Sequence[str]) -> None:
        self._stacks = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115  # closed with the process
        self._has_schema = False
        self._ready: set[int] = set()
        self._asked: list[int] = []
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
        with self._frames.looking_after(meanwhile):
            if not self._has_schema:
                self._frames.send(Frame("schema", 0, memoryview(given.schema.serialize())))
                self._has_schema = True
            self._frames.send(Frame("call", number, memoryview(given.serialize())))
            return self._frames.receive()

    def place(self) -> str:
        """Where its function is, by its stack; empty if it does not tell."""
        is_importing = bool(self._asked)
        before = self._size()
        with suppress(OSError):
            self._process.send_signal(child.STACK_SIGNAL)
        deadline, known = time.monotonic() + _STACK_SECONDS, before
        while time.monotonic() < deadline:
            time.sleep(0.02)
            if known == (known := self._size()) and known > before:
                break
        stack = os.pread(self._stacks.fileno(), known - before, before).decode(errors="replace")
        if is_importing:
            at = place_of(stack.splitlines(), user_code.__file__)
            return f"{at and f'{at}, '}the import of its module"
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

    def ask_for(self, number: int) -> None:
        """Lets it load a function, which `load` waits for."""
        self._asked.append(number)
        with suppress(Closed):  # `load` finds out
            self._frames.send(Frame("load", number))

    def load(self, number: int, meanwhile: Callable[[], object]) -> None:
        """Waits until a function is loaded.

        Raises:
            Closed: The process has ended.
            FunctionNotLoaded: It cannot load it.
        """
        if number in self._ready:
            return
        refused: dict[int, str] = {}
        with self._frames.looking_after(meanwhile):
            if number not in self._asked:
                self.ask_for(number)
            while self._asked:
                frame, asked = self._frames.receive(), self._asked.pop(0)
                if frame.kind == "refused":
                    refused[asked] = bytes(frame.body).decode()
                else:
                    self._ready.add(asked)
        if number in refused:
            raise FunctionNotLoaded(refused[number])

    def _size(self) -> int:
        return os.fstat(self._stacks.fileno()).st_size


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
