"""Removes our traceback from the interruption of a terminated run.

Dagster interrupts a step at any place, and shows the stack as if there were a fault. Our frames in it help nobody, so
they are removed from the interruption, and it gets a message.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager, suppress
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import dagster as dg

# Not exported by `dagster` itself; the dependency is `dagster>=1.13,<1.14`.
from dagster._utils import iterate_with_context

P = ParamSpec("P")
R = TypeVar("R")

INTERRUPTIONS = (dg.DagsterExecutionInterruptedError, KeyboardInterrupt)
WORDS = "the run was interrupted: what is committed stays, and the next run continues there"
WHAT_FOLLOWS = "the sensor starts no other run until it is switched off and on again, or this job is launched"


class _ShedFrames(ContextDecorator):
    """Removes the traceback of an interruption that leaves the context.

    Use it as a decorator: then only a frame of `contextlib` remains. A `with` statement would add its own frame to the
    traceback again.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, INTERRUPTIONS):
            error.__traceback__ = error.__cause__ = error.__context__ = None
            error.args = error.args or (WORDS,)


_shed_frames = _ShedFrames()


def interruptible(compute: Callable[P, R]) -> Callable[P, R]:
    """Decorates the function or generator of a step, below Dagster's own decorator.

    The interruption passes through the whole step first, so that everything open is closed.
    """
    if not inspect.isgeneratorfunction(compute):
        return _shed_frames(compute)

    @wraps(compute)
    def begun(*args: P.args, **kwargs: P.kwargs) -> Any:
        # Dagster's generator wraps ours, so that none of our frames is above the context.
        return iterate_with_context(lambda: _shed_frames, compute(*args, **kwargs))

    # Dagster would read the annotation of a plain function as the type of an output.
    begun.__annotations__ = {name: hint for name, hint in compute.__annotations__.items() if name != "return"}
    return begun


@contextmanager
def telling_of_termination(context: dg.AssetExecutionContext) -> Iterator[None]:
    """Logs what follows if somebody terminates a run of a sensor in the body.

    Args:
        context: Context of the step.
    """
    try:
        yield
    except INTERRUPTIONS:
        with suppress(Exception):  # Dagster's database may be unreachable
            run = context.instance.get_run_by_id(context.run_id)
            if run is not None and run.status is dg.DagsterRunStatus.CANCELING:
                context.log.info(f"terminated by hand: the run ended after its last commit, and {WHAT_FOLLOWS}")
        raise
