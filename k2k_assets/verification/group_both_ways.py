"""Check where both sides are written: does a group read on at the first record, written on the target, that it has not
read? By content, without any mapping.

The records that were written on the target lie there in the order in which their copies lie on the source:

```
  source   a0 b0' b1' a1 | b2'           a group stands at |: it has read b0 and b1
  target   b0 a0' b1 | b2                 right: the next one of these records is b2 on both sides
  target   b0 a0' b1 b2 |                 skipped 1: b2, whose copy is not read, or is not there yet
```
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.messages import Message, headers_of
from k2k_assets.verification.expected_drops import ExpectedDrops
from k2k_assets.verification.group_match import Match, RecordWindow, Sides, match
from k2k_assets.verification.group_windows import AFTER, BEFORE, At

NEAR, FAR = (BEFORE, AFTER), (5_000, 5_000)
"""Records that are compared before and after a position; the second for positions whose records lie far apart."""
_MOST_FAR = 50

DigestOf = Callable[[Message], bytes | None]
Windows = Mapping[At, RecordWindow]
ReadWindows = Callable[[Collection[At], DigestOf, tuple[int, int]], Windows]
"""Reads the windows of positions on one side."""


@dataclass(frozen=True, slots=True)
class Written:
    """How records that were written on the target are read on both sides.

    Attributes:
        on_source: Reads windows on the source.
        on_target: Reads windows on the target.
        copies: How their copies on the source are known.
        others: How records on the target are known that were not written there.
        content: Digest of key and value, as they are compared, of a record on the source and on the target.
        exactly_once: Whether each record lies once on both sides.
    """

    on_source: ReadWindows
    on_target: ReadWindows
    copies: ExpectedDrops
    others: ExpectedDrops
    content: tuple[DigestOf, DigestOf]
    exactly_once: bool

    def matches(self, places: Sequence[tuple[At, At]]) -> list[Match | None]:
        """Compares positions on the source with positions on the target; None if nothing can be compared.

        Args:
            places: A position in a source partition, and the translated one.
        """
        found = self._matches(places, NEAR)
        apart = [n for n, each in enumerate(found) if each and each.different][:_MOST_FAR]
        if apart:
            again = self._matches([places[n] for n in apart], FAR)
            for n, each in zip(apart, again, strict=True):
                found[n] = each
        return [None if each is None or each.different else each for each in found]

    def _matches(self, places: Sequence[tuple[At, At]], most: tuple[int, int]) -> list[Match | None]:
        on_source = self.on_source({source for source, _ in places}, self._copy, most)
        on_target = self.on_target({target for _, target in places}, self._own, most)
        return [
            self._match(source[0], on_source[source], on_target[target])
            if source in on_source and target in on_target
            else None
            for source, target in places
        ]

    def _match(self, partition: TopicPartition, source: RecordWindow, target: RecordWindow) -> Match | None:
        if target.before and not source.records:
            # None of them was copied: all would be skipped.
            seen_all = source.from_first and source.whole and source.ended
            return Match(skipped=len(target.before), first=(partition, source.position)) if seen_all else None
        return match(Sides({partition: source}, target, True, self.exactly_once))

    def _copy(self, message: Message) -> bytes | None:
        headers = headers_of(message)
        return self.content[0](message) if headers and self.copies.rule_for(headers) else None

    def _own(self, message: Message) -> bytes | None:
        headers = headers_of(message)
        return None if headers and self.others.rule_for(headers) else self.content[1](message)
