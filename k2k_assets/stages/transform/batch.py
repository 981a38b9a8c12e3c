"""Records on their way through the rules: their parts, and which of them are left out, by which rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.schema_mapping import Facet
from k2k_assets.stages.transform.documents import Document, RecordFault
from k2k_assets.transport.headers import Headers

Payload = bytes | None


class Failure(NamedTuple):
    """A record for which a rule failed.

    Attributes:
        rule: Name of the rule.
        words: Why.
    """

    rule: str
    words: str


class DeadLetter(NamedTuple):
    """A record that goes to a topic for dead letters.

    Attributes:
        topic: The topic.
        failure: Why.
    """

    topic: str
    failure: Failure


@dataclass(slots=True)
class Batch:
    """Records of one source partition: lists of the same length, which the rules change.

    Attributes:
        source: Source partition.
        offsets: Source offsets.
        timestamps: Milliseconds since the epoch, -1 for none.
        keys: Keys.
        values: Values.
        headers: Headers.
        left_out: Name of the rule that leaves a record out; None for those that stay.
        dead: What goes to topics for dead letters, by index.
        stopped: Index of the record at which the copy has to stop, and why; None if there is none. Nothing is said of
            the records behind it.
        has_new_payloads: Whether any key or value was replaced.
        has_new_headers: Whether any headers were.
    """

    source: TopicPartition
    offsets: Sequence[int]
    timestamps: Sequence[int]
    keys: list[Payload]
    values: list[Payload]
    headers: list[Headers | None]
    left_out: list[str | None] = field(default_factory=list)
    dead: dict[int, DeadLetter] = field(default_factory=dict)
    stopped: tuple[int, StopReason] | None = None
    has_new_payloads: bool = False
    has_new_headers: bool = False
    _documents: dict[Facet, Document] = field(default_factory=dict)
    _read: int = -1

    def __post_init__(self) -> None:
        if not self.left_out:
            self.left_out = [None] * len(self.offsets)

    def live(self) -> list[int]:
        """Indices of the records that are neither left out, nor at or behind the one that stops the copy."""
        end = self.stopped[0] if self.stopped else len(self.offsets)
        return [index for index in range(end) if self.left_out[index] is None]

    def payload(self, index: int, facet: Facet) -> Payload:
        """A key or value, without the changes that are not written yet."""
        return (self.keys if facet == "key" else self.values)[index]

    def set_payload(self, index: int, facet: Facet, payload: Payload) -> None:
        """Replaces a key or value as a whole."""
        self.has_new_payloads = True
        if index == self._read:
            self._documents.pop(facet, None)
        (self.keys if facet == "key" else self.values)[index] = payload

    def set_headers(self, index: int, headers: Headers | None) -> None:
        """Replaces the headers of a record."""
        self.has_new_headers = True
        self.headers[index] = headers

    def document(self, index: int, facet: Facet) -> Document | None:
        """A key or value as JSON, read once until `write`; None if it is null.

        Raises:
            RecordFault: It is not JSON.
        """
        if index != self._read:
            self._documents, self._read = {}, index
        known = self._documents.get(facet)
        if known is None:
            payload = self.payload(index, facet)
            if payload is None:
                return None
            try:
                known = self._documents[facet] = Document(payload)
            except RecordFault as fault:
                raise RecordFault(f"its {facet} has no fields: {fault}") from None
        return known

    def written_payload(self, index: int, facet: Facet) -> Payload:
        """A key or value with all changes."""
        document = self._documents.get(facet) if index == self._read else None
        return document.payload() if document is not None and document.is_changed else self.payload(index, facet)

    def write(self, index: int) -> None:
        """Writes the changed fields of a record; what was read of it is forgotten, as it takes much memory."""
        if index == self._read:
            changed = [facet for facet, document in self._documents.items() if document.is_changed]
            for facet in changed:
                self.set_payload(index, facet, self._documents[facet].payload())
            self._read = -1
