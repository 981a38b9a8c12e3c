"""The errors that a user can act on.

Each carries the exit code with which `k2k` ends; none is shown with a traceback. The message says what was
looked at (cluster, topic, partition, offset), what was expected, and what to do.
"""

from __future__ import annotations

from typing import ClassVar


class K2KError(Exception):
    """Root of all errors that are the user's to know about."""

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
    """What was asked for is not possible as things stand; nothing was copied."""

    exit_code = 3


class NotAllowed(Refused):
    """The principal may not do it; somebody may give it the right."""


class Hidden(NotAllowed):
    """The principal may not even see a topic.

    Args:
        words: What the cluster said.
        topic: Which; empty where that is not known any more.
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


def kind_of(error: K2KError) -> str:
    """The name of the nearest class in this module, to be raised again elsewhere from its words alone."""
    name: str = next(kind.__name__ for kind in type(error).__mro__ if globals().get(kind.__name__) is kind)
    return name


def message_lines(error: BaseException) -> list[str]:
    """What an error says, line by line; never empty.

    An error of Spark's asks its Java process for its words only when it is to tell them, and that process may be gone.
    """
    try:
        said = str(error)
    except Exception:
        said = ""
    return [line.strip() for line in said.splitlines() if line.strip()] or [type(error).__name__]
