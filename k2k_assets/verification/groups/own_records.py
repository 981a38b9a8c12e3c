"""Compares records that were written on the target itself, where both sides are written.

Does a group read on at the first of these that it has not read? By content, without any mapping. They lie on the target
in the order in which their copies lie on the source:

```
  source   a0 b0' b1' a1 | b2'           a group stands at |: it has read b0 and b1
  target   b0 a0' b1 | b2                 right: the next one of these records is b2 on both sides
  target   b0 a0' b1 b2 |                 skipped 1: b2, whose copy is not read, or is not there yet
```
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.groups.report import PollResult
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.messages import Message, headers_of
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.clients.client_properties import ClusterRole
from k2k_assets.verification.content.digests import digest
from k2k_assets.verification.content.expected_drops import ExpectedDrops
from k2k_assets.verification.content.payloads import compared_facets, without_ids
from k2k_assets.verification.content.sides import compacted_topics
from k2k_assets.verification.groups.findings import Findings
from k2k_assets.verification.groups.match import Match, RecordWindow, Sides, match
from k2k_assets.verification.groups.places import GroupPlace, offender_at
from k2k_assets.verification.groups.windows import AFTER, BEFORE, At, read_windows

NEAR, FAR = (BEFORE, AFTER), (5_000, 5_000)
"""Records that are compared before and after a position; the second for positions whose records lie far apart."""
_MOST_FAR = 50

DigestOf = Callable[[Message], bytes | None]
Windows = Mapping[At, RecordWindow]
ReadWindows = Callable[[Collection[At], DigestOf, tuple[int, int]], Windows]
"""Reads the windows of positions on one side."""


@dataclass(frozen=True, slots=True)
class OwnRecords:
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


def judge_own_records(
    pipeline: Pipeline,
    result: PollResult,
    places: Iterable[GroupPlace],
    unsure: Collection[GroupPlace],
    findings: Mapping[str, Findings],
    source: Cluster,
    target: Cluster,
) -> None:
    """Judges by the records that were written on the target; only one to one these have one order on both sides.

    Args:
        pipeline: The pipeline.
        result: The poll.
        places: The places to compare.
        unsure: Those of which the copies could not be compared, for they lie too far apart.
        findings: The findings by group.
        source: The source cluster.
        target: The target cluster.
    """
    one_to_one = [place for place in places if len(place.sources) == 1]
    own = _own_records_of(pipeline, result, one_to_one, source, target)
    found = own.matches([(place.sources[0], place.target) for place in one_to_one])
    for place, compared in zip(one_to_one, found, strict=True):
        counts = findings[place.group].counts
        if compared is None:
            continue
        if place in unsure and compared.compared:
            counts["not_comparable"] -= 1
            counts["compared"] += 1
        counts["records"] += compared.compared
        counts["skipped"] += compared.skipped
        counts["read_again"] += compared.read_again
        never_again = place.decision is CommitDecision.EXACT and pipeline.features.exactly_once
        if compared.skipped or (never_again and compared.read_again):
            counts["offending"] += 1
            findings[place.group].offenders.append(offender_at(place, compared, " that were written on the target"))


def _own_records_of(
    pipeline: Pipeline, result: PollResult, places: Collection[GroupPlace], source: Cluster, target: Cluster
) -> OwnRecords:
    marker = pipeline.marker
    assert marker
    routes = {(tp.topic, place.target[0].topic) for place in places for tp, _ in place.sources}
    facets = compared_facets(routes, CopySettings.of(pipeline))

    def content_of(role: ClusterRole, message: Message) -> bytes | None:
        # Headers and timestamps may follow other rules on the way back.
        of_topic = facets[role].get(message.topic() or "", "")
        return digest(message, without_ids(message.key(), message.value(), of_topic), False, False)

    def windows(role: ClusterRole, at: Collection[At], digest_of: DigestOf, most: tuple[int, int]) -> Windows:
        cluster, topics = (source, 0) if role == "source" else (target, 1)
        known = cluster.describe({route[topics] for route in routes})
        ends = result.source_ends if role == "source" else {tp: each.end for tp, each in result.target_ends.items()}
        return read_windows(
            cluster,
            {**pipeline.client_properties(role, "consumer"), "isolation.level": "read_committed"},
            at,
            {tp: end for tp, end in ends.items() if tp.topic in known},
            digest_of,
            compacted_topics(cluster, known),
            most,
        )

    return OwnRecords(
        partial(windows, "source"),
        partial(windows, "target"),
        ExpectedDrops.by(marker, target.cluster_id()),
        ExpectedDrops.by(marker, source.cluster_id()),
        (
            partial(content_of, "source"),
            partial(content_of, "target"),
        ),
        pipeline.features.exactly_once and result.repeated_back.isdisjoint(place.target[0] for place in places),
    )
