"""Makes the verdict of a content check: faults, verified positions, and earlier faults that still count. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural
from k2k_assets.mapping.algebra.in_memory_mapping import intersection
from k2k_assets.verification.content.by_batches.stretches import Proven
from k2k_assets.verification.content.comparison import Comparison
from k2k_assets.verification.content.sampling import size
from k2k_assets.verification.content.tally import (
    DIFFERENT,
    DROPPED,
    EQUAL,
    GONE,
    HIDDEN,
    NO_SCHEMA,
    NO_SCHEMA_ON_TARGET,
    OTHER,
    OTHER_RULES,
    UNMAPPED,
    Tally,
)
from k2k_assets.verification.content.verified import Verified, outside
from k2k_assets.verification.verdict import Offender, Verdict, VerifiedPosition, verdict

NOTHING_PROVEN = Proven()


def content_verdict(
    plan: Comparison,
    tally: Tally,
    verified: Mapping[TopicPartition, Verified],
    trouble: str,
    mapped: bool,
    proven: Proven = NOTHING_PROVEN,
) -> Verdict:
    """Makes the verdict.

    Args:
        plan: The plan of the check.
        tally: Its results.
        verified: The new notes on each source partition.
        trouble: Why the notes could not be written; empty if they were.
        mapped: Whether the index has any mappings.
        proven: What was compared by batches.
    """
    counted = tally.counted
    equal, without_schema = counted[EQUAL], counted[NO_SCHEMA] + counted[NO_SCHEMA_ON_TARGET]
    gone = without_schema + sum(counted[each] for each in (GONE, HIDDEN, OTHER, OTHER_RULES))
    positions = list(_positions(plan, verified))
    still_bad = list(_still_bad(plan, tally, verified))
    counts = {
        "compared": equal + counted[DIFFERENT],
        "equal": equal,
        "not_comparable": gone + plan.unknown,
        "skipped_by_hand": sum(each.end - each.start for each in plan.skipped),
        "without_schema": without_schema,
        "unknown_to_target": counted[NO_SCHEMA_ON_TARGET],
        "other_rules": counted[OTHER_RULES],
        "dropped": counted[DROPPED],
        "by_batches": tally.proven_records,
        "stretches": tally.pieces + tally.proven_pieces,
        "partitions": len(tally.compared),
        "not_looked_at": len(plan.today) - len(tally.compared),
        "readable": sum(each.readable for each in positions),
        "looked_at": sum(each.looked_at for each in positions),
        "verified_to_the_end": sum(each.verified_to == each.end for each in positions),
        "unmapped_on_target": counted[UNMAPPED] + tally.uncertain,
        "former_topics": plan.former_topics,
        "without_leader": len(plan.offline_partitions),
        "still_bad": len(still_bad),
        "offending": tally.faults,
    }
    same = f"{plural(equal, 'record is', 'records are')} the same on both clusters"
    good = same if equal or mapped else "nothing is mapped yet"
    besides = _besides(plan, counts) + (f"; {trouble}" if trouble else "")
    found = tally.faults + len(still_bad)
    said = verdict([*tally.offenders, *still_bad], found, good + besides, counts, _doubt(plan, counts, mapped, besides))
    way = _way(tally, counts["compared"] - tally.proven_records, proven)
    return Verdict(said.judgement, said.summary, said.counts, said.offenders, positions, way)


def _way(tally: Tally, by_records: int, proven: Proven) -> str:
    """In which of its two ways the check has compared, and how quickly."""
    words = []
    if tally.proven_records:
        speed = proven.bytes_ / max(proven.seconds, 0.001) / 1e6
        unseen = f"{100 * proven.undecoded:.0f} % of them lie in equal batches"
        read = f"{proven.bytes_ / 1e6:,.1f} MB of both sides, {speed:,.0f} MB/s in a task"
        words.append(f"{plural(tally.proven_records, 'record')} compared by batches ({unseen}; {read})")
    if by_records:
        words.append(f"{plural(by_records, 'record')} compared by records")
    if proven.why:
        words.append(f"not by batches: {proven.why}")
    return "; ".join(words)


def _positions(plan: Comparison, verified: Mapping[TopicPartition, Verified]) -> Iterator[VerifiedPosition]:
    for tp, planned in sorted(plan.planned.items()):
        known = verified[tp].within(planned.readable)
        yield VerifiedPosition(
            tp.topic,
            tp.partition,
            known.position or None,
            planned.readable[-1].end,
            size(planned.readable),
            size(known.seen),
            len(outside(known.bad, plan.incomparable.get(tp, ()))),
        )


def _still_bad(plan: Comparison, tally: Tally, verified: Mapping[TopicPartition, Verified]) -> Iterator[Offender]:
    """Faults of earlier evaluations that this one has not reached.

    Ranges that are no longer mapped, or no longer on the source, or whose rules cannot be applied any more, cannot be
    compared and are left out.
    """
    for tp, known in sorted(verified.items()):
        bad = intersection(known.bad, plan.readable[tp]) if tp in plan.readable else known.bad
        bad = outside(bad, plan.incomparable.get(tp, ()))
        for start, end in outside(bad, tally.compared[tp].done if tp in tally.compared else ()):
            what = f"{tp} from {start} to {end - 1} was found wrong before, and was not looked at again yet"
            yield Offender(what, tp.topic, tp.partition, start)


def _doubt(plan: Comparison, counts: dict[str, int], mapped: bool, besides: str) -> str | None:
    if counts["unknown_to_target"]:
        have = plural(counts["unknown_to_target"], "copy has", "copies have")
        return (
            f"{have} a schema id that the target's registry does not know, though the source's has the schema: "
            f"readers there cannot decode them. Was it deleted on the target?{besides}"
        )
    if counts["other_rules"]:
        have = plural(counts["other_rules"], "copy has", "copies have")
        return (
            f"{have} a schema that the target's registry has without all of its rules: readers there neither validate "
            f"nor decrypt. So it is with what was copied before rules were carried over; all else is the same{besides}"
        )
    if counts["equal"] or counts["dropped"] or not mapped:
        return None
    why = "nothing of what is mapped can be read on the source"
    if plan.first or plan.second:
        left = counts["not_comparable"] - counts["without_schema"] - counts["other_rules"]
        why = f"{plural(left, 'record is', 'records are')} gone on one side"
    return f"nothing could be compared: {why}{besides}"


def _besides(plan: Comparison, counts: dict[str, int]) -> str:
    """Further information for the summary, as text."""
    words = []
    if 0 < counts["looked_at"] < counts["readable"]:
        part = 100 * counts["looked_at"] // counts["readable"]
        words.append(f"{part} % of what can be compared was looked at record by record since it was copied")
    if plan.skipped:
        topic, partition, start, end = plan.skipped[0]
        more = f" and {plural(len(plan.skipped) - 1, 'more range')}" if len(plan.skipped) > 1 else ""
        words.append(f"skipped by hand: {topic}-{partition} from {start} to {end - 1}{more}")
    if counts["dropped"]:
        words.append(f"{plural(counts['dropped'], 'was', 'were')} left out on purpose, by the rules of the pipeline")
    if counts["unmapped_on_target"] and not counts["offending"]:
        words.append(
            f"{plural(counts['unmapped_on_target'], 'record lies', 'records lie')} between copies on the target "
            "without being mapped: second copies (at least once), or of other writers"
        )
    if plan.unknown:
        copied = plural(plan.unknown, "was", "were")
        why = "settings that are not known any more, or with functions of other code"
        words.append(f"{copied} copied under {why}, and not compared")
    if counts["without_schema"]:
        have = plural(counts["without_schema"], "record has", "records have")
        words.append(
            f"{have} a schema that a registry, or the file, does not have any more: what follows its id is the same, "
            "the schema was not compared"
        )
    if plan.offline_partitions:
        first = next(iter(plan.offline_partitions.values()))
        count = len(plan.offline_partitions)
        have = plural(count, "partition has no leader and was", "partitions have no leader and were")
        words.append(f"{have} not looked at: {first}")
    if counts["partitions"] and (left := counts["not_looked_at"] - len(plan.offline_partitions)) > 0:
        words.append(f"{left} of {plural(len(plan.today), 'partition was', 'partitions were')} not looked at this time")
    return "".join(f"; {each}" for each in words)
