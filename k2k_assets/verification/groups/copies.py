"""Compares the copied records around both positions of a group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from k2k_assets.control.copy_settings import CopySettings, Reading, shared
from k2k_assets.control.noted_settings import noted_settings
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.groups.report import PollResult
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.index import IndexReader, IndexUnusable
from k2k_assets.mapping.index.portion_table import PORTIONS
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.content.expected_changes import ChangeRules
from k2k_assets.verification.groups.copied_windows import TopicChanges, copied_windows
from k2k_assets.verification.groups.findings import Findings
from k2k_assets.verification.groups.match import Match, RecordWindow, Sides, match
from k2k_assets.verification.groups.places import GroupPlace, offender_at
from k2k_assets.verification.groups.settings import readings_in_index
from k2k_assets.verification.groups.skips import NotCompared, dropped_near, skipped_by_hand, without
from k2k_assets.verification.groups.windows import At


@dataclass(frozen=True, slots=True)
class ComparedCopies:
    """The comparison of the records around a position on both sides.

    Attributes:
        match: The result.
        nothing_there: Whether one side has no records there.
        faulty: Whether the group would skip records, or read records again.
        by_hand: Number of source records that were left out, because they were skipped by hand.
    """

    match: Match
    nothing_there: bool
    faulty: bool
    by_hand: int


def compared_copies(
    pipeline: Pipeline, result: PollResult, places: Sequence[GroupPlace], source: Cluster, target: Cluster
) -> Iterator[tuple[GroupPlace, ComparedCopies | None]]:
    """Compares each place; None if nothing can be compared.

    If records differ under today's settings, or none is recognised, they may have been copied under others: then only
    the parts are compared that count under all settings ever used. If records were read or changed in several ways, the
    index tells which one it was; if nobody noted it, nothing can be compared. Records that were skipped by hand are
    left out then, too.
    """
    found = _match_all(pipeline, result, places, source, target, CopySettings.of(pipeline), NotCompared())
    faulty = [place for place, compared in zip(places, found, strict=True) if compared and _in_doubt(place, compared)]
    again: dict[GroupPlace, ComparedCopies | None] = {}
    if faulty:
        known, index = noted_settings(pipeline, target), _index(pipeline)
        portions = index.portions if index else PORTIONS.empty_table()
        left_out = NotCompared(skipped_by_hand(portions, source), _dropped(index, faulty, source))
        again = dict.fromkeys(faulty)
        for common, some in _by_settings(faulty, source, known, portions):
            matches = _match_all(pipeline, result, some, source, target, common, left_out)
            again |= zip(some, matches, strict=True)
    for place, compared in zip(places, found, strict=True):
        yield place, again.get(place, compared)


def _in_doubt(place: GroupPlace, compared: ComparedCopies) -> bool:
    unknown = not compared.match.compared and not compared.nothing_there
    # Ahead of the copy, records around both positions are not expected.
    return compared.faulty or (unknown and place.decision is not CommitDecision.AHEAD)


def _index(pipeline: Pipeline) -> IndexReader | None:
    """The newest version of the index; None if there is no index."""
    try:
        return IndexReader.open(pipeline)
    except IndexUnusable:
        return None


def _dropped(
    index: IndexReader | None, places: Iterable[GroupPlace], source: Cluster
) -> dict[TopicPartition, list[Covered]]:
    if index is None:
        return {}
    positions = {at for place in places for at in place.sources}
    topics = source.describe({tp.topic for tp, _ in positions})
    ids = {name: topic.topic_id for name, topic in topics.items()}
    return dropped_near(index, source.cluster_id(), ids, positions)


def _by_settings(
    places: Sequence[GroupPlace], source: Cluster, known: Mapping[str, CopySettings], portions: pa.Table
) -> Iterator[tuple[CopySettings, list[GroupPlace]]]:
    """Groups places by the settings for their comparison; places with unknown settings are left out."""
    around = readings_in_index(portions, source, known)
    readings = {place: set[Reading | None]().union(*(around(*at) for at in place.sources)) for place in places}
    if common := shared(known.values()):
        yield common, [place for place in places if None not in readings[place]]
        return
    by_reading: dict[Reading, list[GroupPlace]] = defaultdict(list)
    for place in places:
        if len(readings[place]) == 1 and (reading := readings[place].pop()):
            by_reading[reading].append(place)
    for reading, some in by_reading.items():
        if common := shared([each for each in known.values() if each.reading == reading]):
            yield common, some


def _match_all(
    pipeline: Pipeline,
    result: PollResult,
    places: Sequence[GroupPlace],
    source: Cluster,
    target: Cluster,
    settings: CopySettings,
    left_out: NotCompared,
) -> list[ComparedCopies | None]:
    changes = TopicChanges(ChangeRules(settings.transform, pipeline.folders))
    # Of the others a rule cannot be applied any more, because the code of its function is another one.
    some = [place for place in places if all(changes.are_known(tp.topic) for tp, _ in place.sources)]
    if not some:
        return [None] * len(places)
    on_source, on_target = copied_windows(pipeline, result, some, source, target, settings, changes)
    ways = pipeline.features.exactly_once, pipeline.shares_targets
    found = {place: _match(place, on_source, on_target, left_out, *ways) for place in some}
    return [found.get(place) for place in places]


def _match(
    place: GroupPlace,
    on_source: Mapping[At, RecordWindow],
    on_target: Mapping[At, RecordWindow],
    left_out: NotCompared,
    exactly_once: bool,
    is_both_ways: bool,
) -> ComparedCopies | None:
    by_hand, by_rule = left_out.by_hand, left_out.by_rule
    whole = {at[0]: without(on_source[at], by_rule.get(at[0], ())) for at in place.sources if at in on_source}
    sources = {tp: without(one, by_hand[tp]) if tp in by_hand else one for tp, one in whole.items()}
    window = on_target.get(place.target)
    if window is None or not sources:
        return None
    # A group that stands ahead of the copy reads records again that were copied since; its decision says so.
    exact_alone = place.alone and place.decision is CommitDecision.EXACT
    never_again = exact_alone or (is_both_ways and exactly_once and place.decision is CommitDecision.EXACT)
    found = match(Sides(sources, window, exact_alone, exactly_once))
    nothing_there = not window.records or not any(one.records for one in sources.values())
    return ComparedCopies(
        found,
        nothing_there,
        bool(found.skipped or found.different or (never_again and found.read_again)),
        sum(len(whole[tp].records) - len(one.records) for tp, one in sources.items()),
    )


def judge_copies(place: GroupPlace, compared: ComparedCopies | None, findings: Findings) -> bool:
    """Notes what was found; returns whether it could be compared."""
    if compared is None:
        findings.counts["not_comparable"] += 1
        return False
    found = compared.match
    if is_compared := bool(found.compared or compared.nothing_there or compared.faulty):
        findings.counts["compared"] += 1
    elif place.decision is CommitDecision.AHEAD:
        # The group has read records that are not copied yet: no record lies around both positions.
        findings.counts["waiting"] += 1
    else:
        findings.counts["not_comparable"] += 1
    findings.counts["records"] += found.compared
    findings.counts["skipped_by_hand"] += compared.by_hand
    findings.counts["skipped"] += found.skipped
    findings.counts["read_again"] += found.read_again
    if compared.faulty:
        findings.counts["offending"] += 1
        findings.offenders.append(offender_at(place, found))
    return is_compared or place.decision is CommitDecision.AHEAD
