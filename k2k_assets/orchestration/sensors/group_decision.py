"""Decides which consumer groups a sensor asks a run for: pure, so that every case can be tested.

A group has moved when its commits on the source are others than at the last good run, when copying went on for a
position that lay beyond it, when its members on the target are gone (it was left alone while it had some), or when
records at its position on the target have expired (its consumers there would begin anywhere). After a run that failed,
the groups that it did not move wait, longer each time: 30 s, 60 s, ... 15 minutes. No other waits for them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping

from pydantic import BaseModel, ConfigDict

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.orchestration.sensors.sensor_cursor import SensorCursor
from k2k_assets.orchestration.sensors.sync_decision import back_off

VERSION = 1
# Brokers delete offsets of groups without members some days after their commit: the mapper renews old ones.
RENEW_SECONDS = 12 * 3600.0


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class Synced(_Model):
    """Where a group stood when a good run was asked for."""

    standing: str
    time: float


class Failed(_Model):
    """A group that was asked for and not moved: by how many runs in a row, and when the last of them ended."""

    attempts: int
    time: float


class GroupCursor(SensorCursor):
    """What the sensor remembers between ticks.

    Attributes:
        synced: By group.
        failed: By group.
        asked: What the last request was for, until it is known how it ended.
        attempts: Requests since the last good run.
        asked_at: Time of the last request.
        before: The newest run when it was made.
    """

    version: int = VERSION
    synced: dict[str, Synced] = {}
    failed: dict[str, Failed] = {}
    asked: dict[str, str] = {}
    attempts: int = 0
    asked_at: float = 0.0
    before: str | None = None


class GroupFacts(_Model):
    """What a tick has seen.

    Attributes:
        now: Seconds since the epoch.
        groups: See `standing`; by group, those with a commit on a mapped topic.
        copied: Whether anything has been copied yet.
        unread: Groups of which some or all could not be read this time: what is known of them stays.
        failed_checks: Checks on the mappings whose last verdict is a failure; None where not all of them have one.
        running: Id of a run in progress that moves groups.
        copying: Id of a run in progress that brings the mappings up to date.
        last_run: Id of the newest run that moved groups.
        last_ended: When that one ended, seconds since the epoch.
        last_good: Whether it ended well.
        last_moved: Groups that it has moved, however it ended; none where nobody looked.
    """

    now: float
    groups: dict[str, str]
    copied: bool = True
    unread: frozenset[str] = frozenset()
    failed_checks: list[str] | None = []
    running: str | None = None
    copying: str | None = None
    last_run: str | None = None
    last_ended: float | None = None
    last_good: bool = False
    last_moved: frozenset[str] = frozenset()


class MoveDecision(_Model):
    """What to do.

    Attributes:
        groups: To move; empty to skip.
        mappings: Whether the run has to bring the mappings up to date and check them first.
        run_key: Of the run to ask for; None to skip.
        reason: Why nothing is asked for, in words.
        cursor: To remember.
    """

    groups: tuple[str, ...] = ()
    mappings: bool = False
    run_key: str | None = None
    reason: str = ""
    cursor: GroupCursor


def standing(
    offsets: Mapping[TopicPartition, int], copied: Mapping[TopicPartition, int], on_target: Iterable[str] = ()
) -> str:
    """What changes when a group has to be translated again.

    Args:
        offsets: Where it stands on the source.
        copied: Committed positions of the copy.
        on_target: What else is to be said of the group there, in any words.
    """
    rows: list[object] = [[*tp, offset, min(offset, copied.get(tp, -1))] for tp, offset in sorted(offsets.items())]
    return hashlib.sha256(json.dumps([*rows, *sorted(on_target)]).encode()).hexdigest()[:24]


def decide_groups(facts: GroupFacts, before: GroupCursor) -> MoveDecision:
    """What a tick asks for."""
    cursor = _settled(facts, before)
    if facts.running:
        return _skip(f"run {facts.running} is in progress, and one moves offsets at a time", cursor)
    if not facts.groups and facts.unread:
        return _skip(f"no consumer group could be read: {_some(facts.unread)}", cursor)
    if not facts.groups:
        return _skip("no selected consumer group of the source has a commit on a topic that is copied", cursor)
    if not facts.copied:
        return _skip("nothing is copied yet, so there is nothing to translate by", cursor)
    moved = sorted(name for name, now in facts.groups.items() if _moved(facts, cursor.synced.get(name), now))
    if not moved:
        besides = f"; {len(facts.unread)} could not be read: {_some(facts.unread)}" if facts.unread else ""
        reason = f"all {len(facts.groups)} groups stand where they stood when they were moved last"
        return _skip(reason + besides, cursor)
    wait = _wait(facts, cursor)
    if wait > 0:
        words = f"the last {cursor.attempts} runs did not move them, next in {wait:.0f} s"
        return _skip(f"waiting before asking again for {', '.join(moved[:5])} ({words})", cursor)
    waits = {name: left for name in moved if (left := _wait_of(facts, cursor.failed.get(name))) > 0}
    if len(waits) == len(moved):
        most = max(cursor.failed[name].attempts for name in moved)
        words = f"the last {most} runs did not move them, next in {min(waits.values()):.0f} s"
        return _skip(f"waiting before asking again for {', '.join(moved[:5])} ({words})", cursor)
    moved = [name for name in moved if name not in waits]
    unproven = facts.failed_checks is None or bool(facts.failed_checks)
    if unproven and facts.copying:
        return _skip(f"{_unproven(facts)}; run {facts.copying} is in progress and comes first", cursor)
    asked = {name: facts.groups[name] for name in moved}
    fewest = min(cursor.failed[name].attempts if name in cursor.failed else 0 for name in moved)
    attempts = max(cursor.attempts, fewest) + 1
    changed = {"asked": asked, "attempts": attempts, "asked_at": facts.now, "before": facts.last_run}
    return MoveDecision(
        groups=tuple(moved),
        mappings=unproven,
        run_key=_run_key(asked, facts, cursor),
        cursor=cursor.model_copy(update=changed),
    )


def _skip(reason: str, cursor: GroupCursor) -> MoveDecision:
    return MoveDecision(reason=reason, cursor=cursor)


def _settled(facts: GroupFacts, before: GroupCursor) -> GroupCursor:
    """The cursor once the run that was asked for has ended well; groups that are gone are forgotten."""
    there = facts.groups.keys() | facts.unread
    synced = {name: one for name, one in before.synced.items() if name in there}
    failed = {name: one for name, one in before.failed.items() if name in there}
    has_ended = bool(before.asked) and facts.last_run != before.before and facts.last_ended is not None
    # One that was started by hand for other groups tells nothing of these.
    of_others = facts.last_good and facts.last_moved and facts.last_moved.isdisjoint(before.asked)
    if not has_ended or of_others:
        return before.model_copy(update={"synced": synced, "failed": failed})
    for name, at in before.asked.items():
        known = failed.pop(name, None)
        if name not in there:
            continue
        if facts.last_good or name in facts.last_moved:
            synced[name] = Synced(standing=at, time=before.asked_at)
        else:
            failed[name] = Failed(attempts=known.attempts + 1 if known else 1, time=facts.last_ended or facts.now)
    return GroupCursor(synced=synced, failed=failed)


def _moved(facts: GroupFacts, synced: Synced | None, now: str) -> bool:
    return synced is None or synced.standing != now or facts.now - synced.time >= RENEW_SECONDS


def _wait(facts: GroupFacts, cursor: GroupCursor) -> float:
    if not cursor.attempts:
        return 0.0
    return max(cursor.asked_at, facts.last_ended or 0.0) + back_off(cursor.attempts) - facts.now


def _wait_of(facts: GroupFacts, failed: Failed | None) -> float:
    return failed.time + back_off(failed.attempts) - facts.now if failed else 0.0


def _unproven(facts: GroupFacts) -> str:
    if facts.failed_checks is None:
        return "the offset mappings are not checked: a check has not run yet, or ended without a verdict"
    return f"the offset mappings failed their checks ({', '.join(facts.failed_checks)})"


def _some(names: Collection[str]) -> str:
    return ", ".join(sorted(names)[:5])


def _run_key(asked: Mapping[str, str], facts: GroupFacts, cursor: GroupCursor) -> str:
    """Differs after each run, so that what a failed one did not do is asked for again."""
    wanted = {"groups": dict(asked), "after": facts.last_run, "attempts": cursor.attempts}
    return hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:24]
