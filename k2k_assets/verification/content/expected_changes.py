"""What the rules of `transform` make of source records, for the checks: content is compared through them.

The same rules are applied as on the copy path, to records that are read anew, in batches of the check's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from k2k_assets.core.digest import digest
from k2k_assets.core.errors import Refused
from k2k_assets.core.stops.reasons.functions import FunctionTooSlow
from k2k_assets.core.stops.reasons.unusable_functions import FunctionCannotBeLoaded
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.messages import Header, Message
from k2k_assets.stages.transform.batch import Batch
from k2k_assets.stages.transform.isolated import IsolatedFunctions
from k2k_assets.stages.transform.rules import Transforms

Payload = bytes | None

_FUNCTION_SECONDS = 30.0


class ChangedRecord(NamedTuple):
    """A source record as the rules leave it.

    Attributes:
        key: The key.
        value: The value.
        headers: The headers; None if they cannot be read.
        rule: The rule by which it is left out; None if it is copied.
        read: The headers as they were read, which nobody may ask the record for again.
    """

    key: Payload
    value: Payload
    headers: list[Header] | None
    rule: str | None = None
    read: list[Header] | None = None


class ChangeRules(NamedTuple):
    """The rules of a pipeline at some time, to be sent to Spark's workers.

    Attributes:
        text: The rules, as `CopySettings.transform`; empty if there were none.
        folders: Where modules of functions may lie.
    """

    text: str
    folders: Sequence[str] = ()

    @property
    def id(self) -> str:
        """Short name of the rules; empty if there are none."""
        return digest(self.text) if self.text else ""

    def opened(self) -> Changes:
        """The rules, ready to be applied in this process."""
        return Changes(self)


class Changes:
    """Applies rules. Functions run in a process of their own: they get records, too, at which the copy was stopped.

    Args:
        rules: The rules.
        function_seconds: How long a function may take for a batch, before it gets fewer records.

    Raises:
        Refused: They cannot be applied here.
    """

    def __init__(self, rules: ChangeRules, function_seconds: float = _FUNCTION_SECONDS) -> None:
        self._functions = IsolatedFunctions.of_text(rules.text, rules.folders, function_seconds)
        self._functions.ensure_code()
        self._transforms = Transforms(rules.text, rules.folders, self._functions.call_of)

    def load_functions(self) -> None:
        """Loads the functions, before they are called.

        Raises:
            Refused: One cannot be loaded.
        """
        self._functions.load()

    def of(self, messages: Sequence[Message], own: Sequence[list[Header] | None]) -> list[ChangedRecord]:
        """What becomes of records.

        Args:
            messages: Records of one source partition.
            own: Their headers, from `headers_of`.
        """
        if not messages:
            return []
        at = TopicPartition(messages[0].topic(), messages[0].partition())
        offsets, timestamps = [m.offset() for m in messages], [m.timestamp()[1] for m in messages]
        return self._applied(at, offsets, timestamps, [m.key() for m in messages], [m.value() for m in messages], own)

    def are_for(self, topic: str) -> bool:
        """Whether any of the rules is for a source topic."""
        return bool(self._transforms.of(topic))

    def _applied(
        self,
        source: TopicPartition,
        offsets: Sequence[int],
        timestamps: Sequence[int],
        keys: list[Payload],
        values: list[Payload],
        own: Sequence[list[Header] | None],
    ) -> list[ChangedRecord]:
        done: list[ChangedRecord] = []
        most = len(offsets)
        while len(done) < len(offsets):
            at = slice(len(done), len(done) + most)
            batch = Batch(source, offsets[at], timestamps[at], keys[at], values[at], [has or None for has in own[at]])
            self._transforms.apply(batch)
            if batch.stopped and isinstance(batch.stopped[1], FunctionCannotBeLoaded):
                raise Refused(batch.stopped[1].found())
            if batch.stopped and isinstance(batch.stopped[1], FunctionTooSlow):
                most = len(batch.offsets) // 2 or len(offsets)
                if len(batch.offsets) > 1:
                    continue
            # The copy never passes a record that stops it. It has no copy to compare; what lies behind it may have one.
            end = batch.stopped[0] + 1 if batch.stopped else len(batch.offsets)
            done += [
                ChangedRecord(key, value, None if has is None else list(made or ()), rule, has)
                for key, value, has, made, rule in zip(
                    batch.keys[:end], batch.values[:end], own[at], batch.headers, batch.left_out, strict=False
                )
            ]
        return done

    def of_parts(
        self, at: TopicPartition, offset: int, timestamp: int, key: Payload, value: Payload, headers: Iterable[Header]
    ) -> ChangedRecord:
        """What becomes of one record."""
        return self._applied(at, [offset], [timestamp], [key], [value], [list(headers)])[0]


class View(NamedTuple):
    """How the content of source records and of copies is compared.

    Attributes:
        facets: Those whose schema ids were mapped, as `facets_word`.
        changes: `ChangeRules.id` of the rules that changed source records; empty if there were none.
    """

    facets: str
    changes: str = ""

    @property
    def word(self) -> str:
        """As one word, for columns; empty if records are compared as they are."""
        return f"{self.facets}#{self.changes}" if self.changes else self.facets

    @classmethod
    def parse(cls, word: str) -> View:
        """Reads `word`."""
        facets, _, changes = word.partition("#")
        return cls(facets, changes)


class KnownChanges:
    """Opens rules once each."""

    def __init__(self) -> None:
        self._opened: dict[str, Changes | None] = {}

    def of(self, rules: ChangeRules, topic: str) -> ChangeRules | None:
        """The rules as far as they are for a source topic: empty ones if none is.

        Returns:
            None if the rules cannot be applied here, because the code of a function is another one now, or its module
            cannot be imported.
        """
        if not rules.text:
            return rules
        if rules.text not in self._opened:
            try:
                opened = rules.opened()
                opened.load_functions()
                self._opened[rules.text] = opened
            except Refused:
                self._opened[rules.text] = None
        known = self._opened[rules.text]
        if known is None:
            return None
        return rules if known.are_for(topic) else ChangeRules("")


def by_id(rules: Iterable[ChangeRules]) -> Mapping[str, ChangeRules]:
    """Rules by their short name; without the empty ones."""
    return {each.id: each for each in rules if each.text}
