"""Check: every group resumes on the target at the record at which it stands on the source, by content.

The check reads the records around both positions on both clusters. S, the number of records that would be skipped, must
be 0. R, the number of records that would be read again, must be 0 where one source partition feeds one target
partition; with several, records lie mixed, and R is only shown. Records that retention or compaction removed cannot be
compared: they are counted, and are no failure. Records that were skipped by hand (`k2k-tool set`) are on the source
only: as far as the index knows them they are left out, and counted. Records that a rule left out are left out here too.
Positions that are not committed (unknown, foreign,
active, ...) are shown with their decision. Where both sides are written, the records that were written on the target
are compared too (`own_records.py`): a group may skip none of these, and exact means that it reads none again.

The check judges the target group's commits: it reads them, and a translated position that is not committed is a fault.
Of very many groups each run checks another part (`turns.py`); the others keep their last verdict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from k2k_assets.groups.report import PollResult
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.verification.groups.copies import compared_copies, judge_copies
from k2k_assets.verification.groups.findings import Findings, verdict_of
from k2k_assets.verification.groups.own_records import judge_own_records
from k2k_assets.verification.groups.places import GroupPlace, committed_places, translated_places
from k2k_assets.verification.groups.turns import parts
from k2k_assets.verification.verdict import Verdict

MOST_PARTITIONS = 2000
"""Target partitions that one run checks, over all groups; reading them takes some seconds."""


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
    findings = {group: Findings() for group in chosen}
    translated = list(translated_places(pipeline, result, chosen, findings))
    places: dict[str, list[GroupPlace]] = defaultdict(list)
    for place in committed_places(pipeline, result, translated, findings, target):
        places[place.group].append(place)
    turns = parts(places.values(), MOST_PARTITIONS)
    looked_at = turns[turn % len(turns)]
    waiting = places.keys() - {place.group for place in looked_at}
    for group in chosen:
        findings[group].unproven = _unproven(result, group)
        findings[group].counts["not_looked_at"] = len(places.get(group, ()))
    led = []
    for place in looked_at:
        findings[place.group].counts["not_looked_at"] -= 1
        if why := _offline(result, place):
            findings[place.group].counts["without_leader"] += 1
            findings[place.group].unreadable = why
        else:
            led.append(place)
    unsure = {
        place
        for place, compared in compared_copies(pipeline, result, led, source, target)
        if not judge_copies(place, compared, findings[place.group])
    }
    if pipeline.shares_targets and not pipeline.transform:
        # Rules of `transform` on the way back leave records out and change them, and are not known here.
        judge_own_records(pipeline, result, led, unsure, findings, source, target)
    return {
        group: verdict_of(findings[group], len(turns))
        for group in chosen
        if group not in waiting or findings[group].offenders
    }


def _unproven(result: PollResult, group: str) -> str:
    """Why positions of a group are unknown, where others write to the target; empty if they are not."""
    targets = {row.target for row in result.decisions[group].rows}
    found = [why for target, why in result.unproven.items() if target in targets]
    return found[-1] if found else ""


def _offline(result: PollResult, place: GroupPlace) -> str | None:
    """Why one of the partitions of a place has no leader; None if all have one."""
    offline = (result.offline_partitions.get(tp) for tp, _ in (place.target, *place.sources))
    return next((why for why in offline if why is not None), None)
