"""A run that is terminated shows no traceback of ours.

Dagster interrupts a step wherever it happens to be, and shows the stack of the interruption as if something had gone
wrong there. What our code was at then tells nobody anything. So the interruption leaves each of our steps as if it had
begun in Dagster's own frames, with words.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager, suppress
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import dagster as dg

# Not exported by `dagster` itself; `dagster>=1.13,<1.14` is asked for.
from dagster._utils import iterate_with_context

P = ParamSpec("P")
R = TypeVar("R")

INTERRUPTIONS = (dg.DagsterExecutionInterruptedError, KeyboardInterrupt)
WORDS = "the run was interrupted: what is committed stays, and the next run goes on from there"
WHAT_FOLLOWS = "the sensor starts no other run until it is switched off and on again, or this job is launched"


class _ShedFrames(ContextDecorator):
    """Lets an interruption out as one that comes from nowhere.

    As a decorator it does so from a frame of `contextlib`, which is the innermost that is left: the frame that a `with`
    stands in is added to the traceback on the way out.
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
    """Decorates what a step computes, a function or a generator; below Dagster's own decorator.

    An interruption goes through all of it first, so that whatever is open is closed.
    """
    if not inspect.isgeneratorfunction(compute):
        return _shed_frames(compute)

    @wraps(compute)
    def begun(*args: P.args, **kwargs: P.kwargs) -> Any:
        # A generator of Dagster's around ours, so that no frame of ours is above the context.
        return iterate_with_context(lambda: _shed_frames, compute(*args, **kwargs))

    # As of a generator, Dagster does not take it for the type of an output.
    begun.__annotations__ = {name: hint for name, hint in compute.__annotations__.items() if name != "return"}
    return begun


@contextmanager
def telling_of_termination(context: dg.AssetExecutionContext) -> Iterator[None]:
    """Of a run that a sensor has asked for: if somebody terminates it in the body of this, its log says what follows.

    Args:
        context: Of the step.
    """
    try:
        yield
    except INTERRUPTIONS:
        with suppress(Exception):  # Dagster's database may be away
            run = context.instance.get_run_by_id(context.run_id)
            if run is not None and run.status is dg.DagsterRunStatus.CANCELING:
                context.log.info(f"terminated by hand: it has ended after its last commit, and {WHAT_FOLLOWS}")
        raise
