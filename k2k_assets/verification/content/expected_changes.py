"""What the rules of `transform` make of source records, for the checks: content is compared through them.

The same rules are applied as on the copy path, to records that are read anew, in batches of the check's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from k2k_assets.core.digest import digest
from k2k_assets.core.errors import Refused
from k2k_assets.core.stops.reasons.functions import FunctionTooSlow
from k2k_assets.core.stops.reasons.unusable_functions import FunctionCannotBeLoaded
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.messages import Header, Message
from k2k_assets.pipeline.java_regex import compile_java
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
        text: The rules, as `CopySettings.transform`; empty if there were none. Null in the place of one that does not
            matter.
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

    def of_topic(self, topic: str) -> ChangeRules:
        """The rules as far as they are for a source topic: none, or all but those with functions for others."""
        rules = _parsed(self.text)
        if not any(rule.matches(topic) for rule in rules):
            return ChangeRules("")
        left = [rule.document if rule.matches(topic) or not rule.has_function else None for rule in rules]
        if None not in left:
            return self
        return self._replace(text=json.dumps(left, sort_keys=True, separators=(",", ":"), ensure_ascii=False))


class _Rule(NamedTuple):
    document: Mapping[str, Any]
    matches: Callable[[str], bool]

    @property
    def has_function(self) -> bool:
        return "python" in self.document


@lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[_Rule, ...]:
    documents = json.loads(text) if text else ()
    return tuple(_Rule(each, compile_java(each["pattern"]).matches) for each in documents)


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
        """Ensures that the functions can be loaded; their process is started anew when they are called.

        Raises:
            Refused: One cannot be loaded.
        """
        try:
            self._functions.load()
        finally:
            self._functions.process.close()

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
        """The rules as far as they are for a source topic (`ChangeRules.of_topic`).

        Returns:
            None if a function for the topic cannot be applied here, because its code is another one now, or its module
            cannot be imported.
        """
        found = rules.of_topic(topic)
        return found if not found.text or self.opened(found) else None

    def opened(self, rules: ChangeRules) -> Changes | None:
        """Rules, ready to be applied in this process; None if they cannot be."""
        if rules.text not in self._opened:
            try:
                opened = rules.opened()
                opened.load_functions()
                self._opened[rules.text] = opened
            except Refused:
                self._opened[rules.text] = None
        return self._opened[rules.text]


def by_id(rules: Iterable[ChangeRules]) -> Mapping[str, ChangeRules]:
    """Rules by their short name; without the empty ones."""
    return {each.id: each for each in rules if each.text}
