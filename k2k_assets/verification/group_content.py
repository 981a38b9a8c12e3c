"""Check: every group resumes on the target at the record at which it stands on the source, by content.

The check reads the records around both positions on both clusters. S, the number of records that would be skipped, must
be 0. R, the number of records that would be read again, must be 0 where one source partition feeds one target
partition; with several, records lie mixed, and R is only shown. Records that retention or compaction removed cannot be
compared: they are counted, and are no failure. Records that were skipped by hand (`k2k-tool set`) are on the source
only: as far as the index knows them they are left out, and counted. Records that a rule left out are left out here too.
Positions that are not committed (unknown, foreign,
active, ...) are shown with their decision. Where both sides are written, the records that were written on the target
are compared too (`group_both_ways.py`): a group may skip none of these, and exact means that it reads none again.

The check judges the target group's commits: it reads them, and a translated position that is not committed is a fault.
Of very many groups each run checks another part (`turns.py`); the others keep their last verdict.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from k2k_assets.control.copy_settings import CopySettings, Reading, shared
from k2k_assets.control.noted_settings import noted_settings
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision, Row
from k2k_assets.groups.report import PollResult
from k2k_assets.kafka.cluster import Cluster, TopicDescription
from k2k_assets.kafka.group_reader import fetch_offsets
from k2k_assets.kafka.groups import CommittedOffset
from k2k_assets.kafka.messages import Message, headers_of
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.index import IndexReader, IndexUnusable
from k2k_assets.mapping.index.portion_table import PORTIONS
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.client_properties import ClusterRole
from k2k_assets.pipeline.schema_mapping import Facet, facets_word
from k2k_assets.translation.groups import feeding
from k2k_assets.verification.comparison import compacted_topics
from k2k_assets.verification.digests import digest
from k2k_assets.verification.expected_changes import ChangeRules, KnownChanges
from k2k_assets.verification.expected_drops import ExpectedDrops, expected_drops
from k2k_assets.verification.expected_headers import ClusterIds, expected_headers
from k2k_assets.verification.group_both_ways import DigestOf, Windows, Written
from k2k_assets.verification.group_holding import CommitOwner, holding
from k2k_assets.verification.group_match import Match, RecordWindow, Sides, match
from k2k_assets.verification.group_settings import readings_in_index
from k2k_assets.verification.group_skips import NotCompared, dropped_near, skipped_by_hand, without
from k2k_assets.verification.group_windows import At, read_windows
from k2k_assets.verification.payloads import Payloads, payloads_of
from k2k_assets.verification.turns import parts
from k2k_assets.verification.verdict import Offender, Verdict, verdict

MOST_PARTITIONS = 2000
"""Target partitions that one run checks, over all groups; reading them takes some seconds."""
_COMPARED = (CommitDecision.EXACT, CommitDecision.AHEAD, CommitDecision.MAY_REPEAT, CommitDecision.EXPIRED)
# Decisions by which others move the group on the target, so that there is no commit of ours to compare.
_LEFT_ALONE = {
    CommitDecision.ACTIVE.value,
    CommitDecision.FOREIGN.value,
    CommitDecision.TRANSLATION.value,
    CommitDecision.OLDER.value,
}
_UNDECIDED = {
    "waiting": "ahead: waiting for the copy, nothing to compare yet",
    "moved_since": "moved on since",
}
_COUNTS = (
    *("compared", "waiting", "moved_since", "not_comparable", "not_looked_at", "without_leader"),
    *("records", "skipped", "read_again", "skipped_by_hand", "offending"),
)


@dataclass(frozen=True, slots=True)
class _Place:
    """A group's position in one target partition, and its positions in the source partitions that feed it."""

    group: str
    target: At
    sources: tuple[At, ...]
    alone: bool
    decision: CommitDecision


@dataclass(slots=True)
class _Told:
    """The findings on one group.

    Attributes:
        unreadable: Why its commits, or the records around its position, could not be read; None if they could.
        unproven: Why positions are unknown, where others write to the target; empty if they are not.
    """

    counts: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    offenders: list[Offender] = field(default_factory=list)
    unreadable: str | None = None
    unproven: str = ""


def check_groups(
    pipeline: Pipeline,
    result: PollResult,
    source: Cluster,
    target: Cluster,
    groups: Iterable[str] | None = None,
    turn: int = 0,
) -> dict[str, Verdict]:
    """Checks groups after a poll.

    Args:
        pipeline: The pipeline.
        result: The poll that translated the groups.
        source: The source cluster.
        target: The target cluster.
        groups: The groups to check; None: all groups of the poll.
        turn: Number of the run, which rises by one; it selects a part if there are too many groups for one run.

    Returns:
        Verdicts by group; groups whose turn it is not are left out, unless their commits are not those of the poll.

    Raises:
        K2KError: A cluster does not answer, or a partition cannot be read.
    """
    chosen = sorted(result.decisions if groups is None else set(groups).intersection(result.decisions))
    told = {group: _Told() for group in chosen}
    translated = list(_places(pipeline, result, chosen, told))
    places: dict[str, list[_Place]] = defaultdict(list)
    for place in _held(pipeline, result, translated, told, target):
        places[place.group].append(place)
    for group, of_group in places.items():
        told[group].counts["not_looked_at"] = len(of_group)
    turns = parts(places.values(), MOST_PARTITIONS)
    looked_at = turns[turn % len(turns)]
    waiting = places.keys() - {place.group for place in looked_at}
    led = []
    for target_partition, why in result.unproven.items():
        for group in chosen:
            if any(row.target == target_partition for row in result.decisions[group].rows):
                told[group].unproven = why
    for place in looked_at:
        told[place.group].counts["not_looked_at"] -= 1
        if hidden := [tp for tp, _ in (place.target, *place.sources) if tp in result.offline_partitions]:
            told[place.group].counts["without_leader"] += 1
            told[place.group].unreadable = result.offline_partitions[hidden[0]]
        else:
            led.append(place)
    unsure = set()
    for place, compared in _compared(pipeline, result, led, source, target):
        if not _judge(place, compared, told[place.group]):
            unsure.add(place)
    if pipeline.shares_targets and not pipeline.transform:
        # Rules of `transform` on the way back leave records out and change them, and are not known here.
        _judge_written_there(pipeline, result, led, unsure, told, source, target)
    return {
        group: _verdict(told[group], len(turns)) for group in chosen if group not in waiting or told[group].offenders
    }


def _places(
    pipeline: Pipeline, result: PollResult, groups: Collection[str], told: Mapping[str, _Told]
) -> Iterator[_Place]:
    standing = {tp for group in groups for row in result.decisions[group].rows for tp, _ in row.sources}
    feeds = {
        target: (sources, len(sources) == len(targets) == 1 and not pipeline.shares_targets)
        for targets, sources in feeding({*result.source_ends, *standing}, pipeline.routing, result.target_ends)
        for target in targets
    }
    for group in groups:
        own = {tp.topic for row in result.decisions[group].rows for tp, _ in row.sources}
        for row in result.decisions[group].rows:
            word = CommitDecision.ACTIVE if row.commit and group in result.active else row.decision
            told[group].words[word.value] += 1
            told[group].counts["waiting"] += word is CommitDecision.WAITING
            if word in _COMPARED and row.target in feeds:
                sources, alone = feeds[row.target]
                yield _Place(group, (row.target, row.offset), _standing(row, sources, own), alone, word)


def _held(
    pipeline: Pipeline, result: PollResult, places: Iterable[_Place], told: Mapping[str, _Told], target: Cluster
) -> Iterator[_Place]:
    """The places whose translated position is committed; the others are noted as offenders, moved, or unreadable."""
    by_group: dict[str, list[_Place]] = defaultdict(list)
    for place in places:
        by_group[place.group].append(place)
    found = fetch_offsets(target, sorted(by_group))
    for group, of_group in by_group.items():
        if group not in found.groups or (group in found.failed and found.groups[group].unstable):
            told[group].unreadable = found.failed.get(group, "no answer")
            continue
        offsets = found.groups[group].offsets
        for place in of_group:
            partition, offset = place.target
            committed = offsets.get(partition)
            match holding(offset, committed, result.version, pipeline.groups.offset_guard_prefix):
                case CommitOwner.OURS:
                    yield place
                case CommitOwner.MOVED:
                    told[group].counts["moved_since"] += 1
                case _:
                    told[group].counts["offending"] += 1
                    told[group].offenders.append(_not_committed(place, committed))


def _not_committed(place: _Place, committed: CommittedOffset | None) -> Offender:
    (partition, offset), (source, standing) = place.target, place.sources[0]
    what = f"holds {committed.offset} ({committed.metadata})" if committed else "holds nothing"
    return Offender(
        f"group {place.group} {what} in {partition} on the target, and {standing} in {source} on the source is "
        f"{offset} there: what was committed is gone, or never was. Materialize the group again; if it stays so, see "
        "who else changes the group",
        source.topic,
        source.partition,
        standing,
        partition.topic,
        partition.partition,
        committed.offset if committed else None,
    )


def _standing(row: Row, sources: Iterable[TopicPartition], own: set[str]) -> tuple[At, ...]:
    """The group's position in each source partition; 0 for partitions without a commit of topics that it reads."""
    committed = {tp: position.offset for tp, position in row.sources}
    return tuple((tp, committed.get(tp, 0)) for tp in sources if tp in committed or tp.topic in own)


@dataclass(frozen=True, slots=True)
class _Compared:
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


def _compared(
    pipeline: Pipeline, result: PollResult, places: Sequence[_Place], source: Cluster, target: Cluster
) -> Iterator[tuple[_Place, _Compared | None]]:
    """Compares each place; None if nothing can be compared.

    If records differ under today's settings, or none is recognised, they may have been copied under others: then only
    the parts are compared that count under all settings ever used. If records were read or changed in several ways, the
    index tells which one it was; if nobody noted it, nothing can be compared. Records that were skipped by hand are
    left out then, too.
    """
    found = _match_all(pipeline, result, places, source, target, CopySettings.of(pipeline), NotCompared())
    faulty = [place for place, compared in zip(places, found, strict=True) if compared and _in_doubt(place, compared)]
    again: dict[_Place, _Compared | None] = {}
    if faulty:
        known, index = noted_settings(pipeline, target), _index(pipeline)
        portions = index.portions if index else PORTIONS.empty_table()
        left_out = NotCompared(skipped_by_hand(portions, source), _dropped(index, faulty, source))
        again = dict.fromkeys(faulty)
        for common, some in _by_settings(faulty, source, _comparable(known, pipeline), portions):
            matches = _match_all(pipeline, result, some, source, target, common, left_out)
            again |= zip(some, matches, strict=True)
    for place, compared in zip(places, found, strict=True):
        yield place, again.get(place, compared)


def _in_doubt(place: _Place, compared: _Compared) -> bool:
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
    index: IndexReader | None, places: Iterable[_Place], source: Cluster
) -> dict[TopicPartition, list[Covered]]:
    if index is None:
        return {}
    positions = {at for place in places for at in place.sources}
    topics = source.describe({tp.topic for tp, _ in positions})
    ids = {name: topic.topic_id for name, topic in topics.items()}
    return dropped_near(index, source.cluster_id(), ids, positions)


def _comparable(known: Mapping[str, CopySettings], pipeline: Pipeline) -> Mapping[str, CopySettings]:
    """The settings without those whose rules cannot be applied any more, because the code of a function is another."""
    opened = KnownChanges()
    folders = pipeline.folders
    return {
        name: each for name, each in known.items() if opened.of(ChangeRules(each.transform, folders), "") is not None
    }


def _by_settings(
    places: Sequence[_Place], source: Cluster, known: Mapping[str, CopySettings], portions: pa.Table
) -> Iterator[tuple[CopySettings, list[_Place]]]:
    """Groups places by the settings for their comparison; places with unknown settings are left out."""
    around = readings_in_index(portions, source, known)
    readings = {place: set[Reading | None]().union(*(around(*at) for at in place.sources)) for place in places}
    if common := shared(known.values()):
        yield common, [place for place in places if None not in readings[place]]
        return
    by_reading: dict[Reading, list[_Place]] = defaultdict(list)
    for place in places:
        if len(readings[place]) == 1 and (reading := readings[place].pop()):
            by_reading[reading].append(place)
    for reading, some in by_reading.items():
        if common := shared([each for each in known.values() if each.reading == reading]):
            yield common, some


def _match_all(
    pipeline: Pipeline,
    result: PollResult,
    places: Sequence[_Place],
    source: Cluster,
    target: Cluster,
    settings: CopySettings,
    left_out: NotCompared,
) -> list[_Compared | None]:
    on_source, on_target = _windows(pipeline, result, places, source, target, settings)
    exactly_once = pipeline.features.exactly_once
    both_ways = pipeline.shares_targets
    return [_match(place, on_source, on_target, left_out, exactly_once, both_ways) for place in places]


def _windows(
    pipeline: Pipeline,
    result: PollResult,
    places: Sequence[_Place],
    source: Cluster,
    target: Cluster,
    settings: CopySettings,
) -> tuple[dict[At, RecordWindow], dict[At, RecordWindow]]:
    routes = {(tp.topic, place.target[0].topic) for place in places for tp, _ in place.sources}
    on_source = source.describe({topic for topic, _ in routes})
    on_target = target.describe({topic for _, topic in routes})
    timed = _timed_topics(routes, source, target, on_source, on_target) if settings.timestamps else frozenset()
    timed_sources = {topic for topic, to in routes if to in timed}
    source_properties = {**pipeline.client_properties("source", "consumer"), "isolation.level": settings.isolation}
    target_properties = {**pipeline.client_properties("target", "consumer"), "isolation.level": "read_committed"}

    ids = ClusterIds.of(source, target)
    rules = ChangeRules(settings.transform, pipeline.folders)
    changes = rules.opened() if rules.text else None
    facets = _facets(routes, settings)
    expected, drops = expected_headers(settings, ids, rules.id), expected_drops(settings, ids, rules.id)
    with_headers = settings.headers or bool(expected)

    def digest_of(role: ClusterRole, timed_here: Collection[str], payloads: Payloads, message: Message) -> bytes | None:
        of_topic, timed_too = facets[role].get(message.topic() or "", ""), message.topic() in timed_here
        if role == "target":
            return digest(message, payloads.of(message, of_topic), with_headers, timed_too)
        if changes is None:
            return digest(message, payloads.of(message, of_topic), with_headers, timed_too, expected, drops)
        (changed,) = changes.of([message], [headers_of(message)])
        as_compared = payloads.through(changed.key, changed.value, of_topic)
        return digest(message, as_compared, with_headers, timed_too, expected, drops, changed)

    return (
        read_windows(
            source,
            source_properties,
            {at for place in places for at in place.sources},
            {tp: end for tp, end in result.source_ends.items() if tp.topic in on_source},
            partial(digest_of, "source", timed_sources, payloads_of(pipeline, "source")),
            compacted_topics(source, on_source),
        ),
        read_windows(
            target,
            target_properties,
            {place.target for place in places},
            {tp: ends.end for tp, ends in result.target_ends.items() if tp.topic in on_target},
            partial(digest_of, "target", timed, payloads_of(pipeline, "target")),
            compacted_topics(target, on_target),
        ),
    )


def _match(
    place: _Place,
    on_source: Mapping[At, RecordWindow],
    on_target: Mapping[At, RecordWindow],
    left_out: NotCompared,
    exactly_once: bool,
    is_both_ways: bool,
) -> _Compared | None:
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
    return _Compared(
        found,
        nothing_there,
        bool(found.skipped or found.different or (never_again and found.read_again)),
        sum(len(whole[tp].records) - len(one.records) for tp, one in sources.items()),
    )


def _judge(place: _Place, compared: _Compared | None, told: _Told) -> bool:
    """Notes what was found; returns whether it could be compared."""
    if compared is None:
        told.counts["not_comparable"] += 1
        return False
    found = compared.match
    if is_compared := bool(found.compared or compared.nothing_there or compared.faulty):
        told.counts["compared"] += 1
    elif place.decision is CommitDecision.AHEAD:
        # The group has read records that are not copied yet: no record lies around both positions.
        told.counts["waiting"] += 1
    else:
        told.counts["not_comparable"] += 1
    told.counts["records"] += found.compared
    told.counts["skipped_by_hand"] += compared.by_hand
    told.counts["skipped"] += found.skipped
    told.counts["read_again"] += found.read_again
    if compared.faulty:
        told.counts["offending"] += 1
        told.offenders.append(_offender(place, found))
    return is_compared or place.decision is CommitDecision.AHEAD


def _judge_written_there(
    pipeline: Pipeline,
    result: PollResult,
    places: Iterable[_Place],
    unsure: Collection[_Place],
    told: Mapping[str, _Told],
    source: Cluster,
    target: Cluster,
) -> None:
    """Judges by the records that were written on the target; only one to one these have one order on both sides.

    Args:
        pipeline: The pipeline.
        result: The poll.
        places: The places to compare.
        unsure: Those of which the copies could not be compared, for they lie too far apart.
        told: The findings by group.
        source: The source cluster.
        target: The target cluster.
    """
    one_to_one = [place for place in places if len(place.sources) == 1]
    written = _written_there(pipeline, result, one_to_one, source, target)
    found = written.matches([(place.sources[0], place.target) for place in one_to_one])
    for place, compared in zip(one_to_one, found, strict=True):
        counts = told[place.group].counts
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
            told[place.group].offenders.append(_offender(place, compared, " that were written on the target"))


def _written_there(
    pipeline: Pipeline, result: PollResult, places: Iterable[_Place], source: Cluster, target: Cluster
) -> Written:
    marker = pipeline.marker
    assert marker
    routes = {(tp.topic, place.target[0].topic) for place in places for tp, _ in place.sources}
    facets = _facets(routes, CopySettings.of(pipeline))

    def content_of(role: ClusterRole, payloads: Payloads, message: Message) -> bytes | None:
        # Headers and timestamps may follow other rules on the way back.
        return digest(message, payloads.of(message, facets[role].get(message.topic() or "", "")), False, False)

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

    return Written(
        partial(windows, "source"),
        partial(windows, "target"),
        ExpectedDrops.by(marker, target.cluster_id()),
        ExpectedDrops.by(marker, source.cluster_id()),
        (
            partial(content_of, "source", payloads_of(pipeline, "source")),
            partial(content_of, "target", payloads_of(pipeline, "target")),
        ),
        pipeline.features.exactly_once,
    )


def _offender(place: _Place, found: Match, which: str = "") -> Offender:
    target, offset = place.target
    what = f"{target} at {offset}: "
    if found.different:
        what += "the records around it are not those around the position on the source"
    else:
        what += f"{found.skipped} records{which} are skipped, {found.read_again} are read again"
    source, record = found.first or (place.sources[0][0], place.sources[0][1])
    standing = dict(place.sources).get(source, record)
    what += f" (the group stands at {standing} in {source} on the source)"
    return Offender(what, source.topic, source.partition, record, target.topic, target.partition, offset)


def _verdict(told: _Told, runs: int) -> Verdict:
    """Makes the verdict on one group.

    Args:
        told: The findings.
        runs: Number of runs after which all groups are checked.
    """
    counts = {
        "partitions": sum(told.words.values()),
        **{name: told.counts[name] for name in _COUNTS},
        **{f"state_{word.replace(' ', '_')}": count for word, count in sorted(told.words.items())},
    }
    words = ", ".join(f"{count} {word}" for word, count in told.words.most_common())
    compared = counts["compared"]
    good = (
        f"skipped {counts['skipped']}, read again {counts['read_again']}: {compared} of {counts['partitions']} "
        f"partitions ({words}) and {counts['records']} records compared"
    )
    good += "".join(f"; {counts[name]} {what}" for name, what in _UNDECIDED.items() if counts[name])
    if counts["without_leader"]:
        good += f"; {counts['without_leader']} not looked at: {told.unreadable}"
    if counts["not_looked_at"]:
        good += f"; {counts['not_looked_at']} not looked at this time: all are in {runs} runs"
    return verdict(told.offenders, counts["offending"], good, counts, _doubt(told, counts, words))


def _doubt(told: _Told, counts: Mapping[str, int], words: str) -> str | None:
    """Why the verdict is doubtful, if nothing was compared that should have been; else None."""
    if told.unreadable and not counts["compared"]:
        return f"nothing was compared, for it could not be read: {told.unreadable}"
    if counts["compared"] or any(counts[name] for name in _UNDECIDED):
        return None
    if counts["not_comparable"]:
        return f"nothing could be compared ({words}): retention or compaction took the records on one side"
    if set(told.words) <= _LEFT_ALONE and told.words:
        return None
    if told.unproven:
        return f"nothing was compared: {words}: {told.unproven}"
    return f"nothing was compared: {words or 'no positions'}. See docs/offsets.md for what each of these means"


def _facets(routes: Iterable[tuple[str, str]], settings: CopySettings) -> Mapping[ClusterRole, Mapping[str, str]]:
    """The facets with mapped schema ids of each side's topics, as `facets_word`.

    Of topics that go to one target topic all are compared in one way, whichever of them a record there came from.
    """
    of_target: dict[str, frozenset[Facet]] = {}
    for topic, to in routes:
        of_target[to] = of_target.get(to, frozenset()) | settings.facets(topic)
    return {
        "source": {topic: facets_word(of_target[to]) for topic, to in routes},
        "target": {to: facets_word(facets) for to, facets in of_target.items()},
    }


def _timed_topics(
    routes: Iterable[tuple[str, str]],
    source: Cluster,
    target: Cluster,
    on_source: Mapping[str, TopicDescription],
    on_target: Mapping[str, TopicDescription],
) -> frozenset[str]:
    """Target topics whose timestamps must equal those of the source, because brokers set them on neither side.

    Args:
        routes: Source topics, each with its target topic.
        source: The source cluster.
        target: The target cluster.
        on_source: Existing source topics, by name.
        on_target: Existing target topics, by name.
    """
    stamped_there = _create_time(source, on_source)
    stamped_here = _create_time(target, on_target)
    unsure = {to for topic, to in routes if topic not in stamped_there}
    return frozenset(to for _, to in routes if to in stamped_here and to not in unsure)


def _create_time(cluster: Cluster, topics: Mapping[str, TopicDescription]) -> frozenset[str]:
    configs = cluster.topic_configs(list(topics), only_changed=False)
    return frozenset(n for n, config in configs.items() if config.get("message.timestamp.type") != "LogAppendTime")
