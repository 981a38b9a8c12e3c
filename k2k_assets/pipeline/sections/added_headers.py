"""Headers that each copy gets behind those of its source record. Pure.

Stages add them, and the settings of a copy name them: so checks know what a copy has to have.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

HeaderContent = Literal["partition", "offset", "topic", "text"]
"""What a header holds: source partition, source offset or source topic of the record, or the same text for all."""


class AddedHeader(NamedTuple):
    """A header that each copy gets.

    Attributes:
        name: Its key.
        content: What its value is; always text, in UTF-8.
        text: The value, if the content is `text`.
    """

    name: str
    content: HeaderContent
    text: str = ""

    def value(self, topic: str, partition: int, offset: int) -> bytes:
        """The value for one source record.

        Args:
            topic: Source topic.
            partition: Source partition.
            offset: Source offset.
        """
        match self.content:
            case "partition":
                return b"%d" % partition
            case "offset":
                return b"%d" % offset
            case "topic":
                return topic.encode()
            case "text":
                return self.text.encode()

    @classmethod
    def parse(cls, found: object) -> AddedHeader | None:
        """Reads a header from a JSON list; None if a newer release wrote it."""
        match found:
            case [str(name), str(content), str(text)] if content in get_args(HeaderContent):
                return cls(name, content, text)  # type: ignore[arg-type]
        return None


AddedHeaders = tuple[AddedHeader, ...]
"""Added headers, in their order."""
