"""The errors that a user can act on.

Each carries the exit code with which `k2k` ends; none is shown with a traceback. The message says what was
looked at (cluster, topic, partition, offset), what was expected, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class K2KError(Exception):
    """Base class of all errors that users see."""

    exit_code: ClassVar[int] = 1


class PipelineFileError(K2KError):
    """The pipeline file cannot be used; the message lists every fault found in it."""

    exit_code = 2


class InvalidVariable(K2KError):
    """An environment variable cannot be used."""

    exit_code = 2


class ClusterUnreachable(K2KError):
    """A cluster did not answer within its deadline."""

    exit_code = 3


class Refused(K2KError):
    """The request is not possible as things stand; nothing was copied."""

    exit_code = 3


class Refusals:
    """Collects refusals, so that what is refused keeps nothing else back; `raise_all` comes last."""

    def __init__(self) -> None:
        self._found: list[Refused] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keeps a refusal of its block, which ends there."""
        try:
            yield
        except Refused as refusal:
            self._found.append(refusal)

    def raise_all(self) -> None:
        """Raises what was refused, a line each; one alone as it is.

        Raises:
            Refused: Something was refused.
        """
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise Refused("\n".join(map(str, self._found)))


class NotAllowed(Refused):
    """The principal lacks a right, which an administrator can grant."""


class Hidden(NotAllowed):
    """The principal may not even see a topic.

    Args:
        words: The cluster's error text.
        topic: The hidden topic; empty where it is not known any more.
    """

    def __init__(self, words: str, topic: str = "") -> None:
        super().__init__(words)
        self.topic = topic


class Superseded(K2KError):
    """A newer instance of the same pipeline has taken over."""

    exit_code = 4


class TopicsStopped(K2KError):
    """Some topics were stopped loudly; the others went on."""

    exit_code = 5


class NotCaughtUp(K2KError):
    """A replication with an end was told to stop before it got there; nothing was lost."""

    exit_code = 6


class StoppedWaiting(K2KError):
    """It was told to stop while it waited for Spark on a cluster; nothing was taken over or copied."""


def kind_of(error: K2KError) -> str:
    """The name of the error's nearest class in this module, so that another process can raise it from name and text."""
    name: str = next(kind.__name__ for kind in type(error).__mro__ if globals().get(kind.__name__) is kind)
    return name


def message_lines(error: BaseException) -> list[str]:
    """The lines of an error's text; its class name where it has no text.

    A Spark error fetches its text from the Java process only when it is asked for it, and that process may be gone.
    """
    try:
        said = str(error)
    except Exception:
        said = ""
    return [line.strip() for line in said.splitlines() if line.strip()] or [type(error).__name__]
