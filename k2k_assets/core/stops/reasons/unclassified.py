"""What this release reads and does not know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from k2k_assets.core.stops.reason import StopReason


@dataclass(frozen=True)
class Unclassified(StopReason, code="unclassified"):
    """A reason whose code this release does not know; it has only the text.

    Attributes:
        text: The text.
        noted_code: The code beside it, which this release does not know.
    """

    title = "a reason that another release noted"
    meaning = "Older releases noted no code. One that a newer release noted is shown with the code of that release."
    advice = "The message says what to do."

    text: str
    noted_code: str | None = None

    @property
    def code(self) -> str:
        return self.noted_code or super().code

    def found(self) -> str:
        return self.text

    def to_do(self) -> str:
        return ""

    @classmethod
    def example(cls) -> Self:
        return cls("the source topic orders is gone")
