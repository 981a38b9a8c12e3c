"""The process in which functions of users run: answers one call after the other, until its parent is gone."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from k2k_assets.core.errors import Refused
from k2k_assets.functions.answers import Call, FunctionFailed, FunctionResult, in_this_process, row_numbers
from k2k_assets.functions.frames import Closed, Frame, Frames
from k2k_assets.functions.user_code import load_function

if TYPE_CHECKING:
    import pyarrow as pa

ROW = "row"
"""Name of the column of an answer that has the numbers of its rows."""
STACK_SIGNAL = signal.SIGUSR1
"""The signal that makes this process write where its function is."""

# `PR_SET_PDEATHSIG` of Linux.
_PARENT_DEATH_SIGNAL = 1
# Of the kernel's score by which it ends processes when memory is short, which is 1000 at most.
_MORE_LIKELY = 200


def main(connection: int, stacks: int, parent: int) -> None:
    """Serves a connection.

    Args:
        connection: File descriptor of the socket to the parent.
        stacks: File descriptor of the file for stacks.
        parent: Process id of the parent.
    """
    _end_with(parent)
    _be_ended_first()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the parent
    faulthandler.register(STACK_SIGNAL, file=stacks, all_threads=False)
    frames = Frames(socket.socket(fileno=connection))
    with suppress(Closed):
        import pyarrow  # noqa: F401  # here, so that it is no part of the time of the first call

        _serve(frames, json.loads(bytes(frames.receive().body)))


def _serve(frames: Frames, known: dict[str, Any]) -> None:
    """Answers the frames of the parent, which loads a function before it calls it."""
    import pyarrow as pa

    schema: pa.Schema | None = None
    calls: dict[int, Call] = {}
    while True:
        frame = frames.receive()
        if frame.kind == "load":
            try:
                name, code = known["functions"][frame.number]
                calls[frame.number] = in_this_process(load_function(name, known["folders"], code))
            except Refused as refusal:
                frames.send(Frame("refused", 0, str(refusal).encode(errors="backslashreplace")))
            else:
                frames.send(Frame("ready"))
            continue
        if frame.kind == "schema":
            schema = pa.ipc.read_schema(pa.py_buffer(frame.body))
            continue
        assert schema is not None
        given = pa.ipc.read_record_batch(pa.py_buffer(frame.body), schema)
        try:
            answer = calls[frame.number](given)
        except FunctionFailed as failure:
            frames.send(Frame("failed", 0, str(failure).encode()))
            continue
        frames.send(_written(given, answer))


def _written(given: pa.RecordBatch, answer: FunctionResult) -> Frame:
    import pyarrow as pa

    if len(answer.rows) == given.num_rows and not answer.columns:
        return Frame("all")
    columns = {ROW: row_numbers(answer.rows), **answer.columns}
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return Frame("answer", 0, memoryview(sink.getvalue()))


def _end_with(parent: int) -> None:
    """Lets the kernel end this process with its parent, whatever a function does; elsewhere it ends after its call."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(0)


def _be_ended_first() -> None:
    """Lets the kernel end this process rather than its parent when memory is short."""
    with suppress(OSError, ValueError):
        score = Path("/proc/self/oom_score_adj")
        score.write_text(str(min(1000, int(score.read_text()) + _MORE_LIKELY)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
