"""A stop reason as a value: a code and facts. It becomes text only at the edge, by `render`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from k2k_assets.core.topic_partition import TopicPartition

ORDERS = TopicPartition("orders", 0)
COPY = TopicPartition("copy.orders", 0)
"""The source and the target partition that examples of reasons name."""

KINDS: dict[str, type[StopReason]] = {}
"""The kinds of stop reasons that are imported, by code. `catalog.py` imports all."""


@dataclass(frozen=True)
class StopReason(ABC):
    """Why a partition or a topic was stopped. The fields of a kind are its facts.

    A kind is a frozen dataclass that names its code: `class SourceDeleted(StopReason, code="source-deleted")`. Facts
    are numbers, texts and `TopicPartition`. A fact that is added later needs a default, so that older records can be
    read.

    Attributes:
        title: The finding in one line, for the documentation.
        meaning: What the finding means for the copy, in Markdown.
        advice: What to do, and what the commands in the text do, in Markdown.
    """

    _code: ClassVar[str]
    title: ClassVar[str]
    meaning: ClassVar[str]
    advice: ClassVar[str]

    def __init_subclass__(cls, code: str) -> None:
        if code in KINDS:
            raise TypeError(f"the code {code} is that of {KINDS[code].__name__}")
        cls._code = code
        KINDS[code] = cls

    @property
    def code(self) -> str:
        """The name by which programs know this kind of reason. It never changes."""
        return self._code

    @abstractmethod
    def found(self) -> str:
        """The finding with its offsets; no full stop at the end."""

    @abstractmethod
    def to_do(self) -> str:
        """What to do, with the command that resumes the copy; no full stop at the end. Empty if nobody knows."""

    @classmethod
    @abstractmethod
    def example(cls) -> Self:
        """A reason of this kind for the documentation and for tests."""


Stops = Mapping[int | None, StopReason]
"""Why the partitions of one topic were stopped, by partition. The key None stands for the whole topic."""


def render(reason: StopReason, *, with_code: bool = True) -> str:
    """The text that people read: what was found, and what to do.

    Args:
        reason: The value.
        with_code: Whether the text begins with the code; false where the code is shown beside the text.
    """
    text = ". ".join(filter(None, (reason.found(), reason.to_do())))
    return f"[{reason.code}] {text}" if with_code else text


def render_topic(topic: str, stops: Stops) -> str:
    """The text for one topic: each stopped partition with its reason."""
    return "; ".join(
        render(reason) if partition is None else f"{topic}-{partition}: {render(reason)}"
        for partition, reason in stops.items()
    )


def codes_of(reasons: Iterable[StopReason]) -> str:
    """The codes of reasons, each once, for a column or a field beside the text."""
    return ", ".join(dict.fromkeys(reason.code for reason in reasons))
