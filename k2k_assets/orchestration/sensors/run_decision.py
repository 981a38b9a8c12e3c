"""Decides which topics a sensor asks a run for: pure, so that every case can be tested.

A topic lags when a partition's committed position is below what the pipeline can read of it, or when it has none. A
topic that was asked for and has not moved since waits, longer each time: 30 s, 60 s, ... 15 minutes. No other waits for
it.
Nothing is asked to copy while a continuous instance (`k2k start`) lives: a run would take its partitions over, and hand
them back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from k2k_assets.coordination.presence import Presence

VERSION = 1
FIRST_BACK_OFF = 30.0
LONGEST_BACK_OFF = 900.0
# Stands beside topic names, none of which can be empty.
MAPPINGS = ""

Positions = list[int | None]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class RequestedRun(_Model):
    """A request for a topic that has not been answered by progress yet; and when its run ended, once that is known."""

    positions: Positions
    attempts: int
    time: float
    ended: float | None = None


class Heard(_Model):
    """When a heartbeat of an instance was seen first, or a little later: other machines' clocks are not trusted."""

    sign: int
    time: float


class Cursor(_Model):
    """What a sensor remembers between ticks: by topic, lists by partition; of stopped topics, the reason."""

    version: int = VERSION
    ends: dict[str, list[int]] = {}
    positions: dict[str, Positions] = {}
    asked: dict[str, RequestedRun] = {}
    stopped: dict[str, str] = {}
    heard: dict[str, Heard] = {}

    @classmethod
    def read(cls, text: str | None) -> Cursor:
        """A cursor from its JSON; an empty one when there is none that this release can read."""
        try:
            cursor = cls.model_validate_json(text or "")
        except ValueError:
            return cls()
        return cursor if cursor.version == VERSION else cls()


class SensorFacts(_Model):
    """What a tick has seen.

    Attributes:
        looked: When the look at the clusters began, seconds since the epoch.
        now: When it was over, likewise.
        ends: `Pipeline.readable_end` of the source partitions.
        positions: Committed positions; None where there is none.
        mappings: Positions that the index has been brought up to; None when there is no index to keep.
        running: Id of a run of the pipeline that is in progress.
        last_run: Id of the newest run.
        last_ended: When that one ended, seconds since the epoch.
        instances: Continuous instances, by name.
        heartbeat_timeout: After so many seconds without a heartbeat one counts as dead.
    """

    looked: float
    now: float
    ends: dict[str, list[int]]
    positions: dict[str, Positions]
    mappings: dict[str, Positions] | None = None
    running: str | None = None
    last_run: str | None = None
    last_ended: float | None = None
    instances: dict[str, Presence] = {}
    heartbeat_timeout: float = 0.0


class RunDecision(_Model):
    """What to do.

    Attributes:
        topics: To copy; empty with a run key: only the commit log and the index are to be brought up to date.
        run_key: Of the run to ask for; None to skip.
        reason: Why nothing is asked for, in words.
        cursor: To remember.
    """

    topics: tuple[str, ...] = ()
    run_key: str | None = None
    reason: str = ""
    cursor: Cursor


def decide_run(facts: SensorFacts, before: Cursor) -> RunDecision:
    """What a tick asks for."""
    heard = _heard(facts, before)
    seen = before.model_copy(update={"ends": facts.ends, "positions": facts.positions, "heard": heard})
    if facts.running:
        return RunDecision(reason=f"run {facts.running} is in progress, and one copies at a time", cursor=seen)
    before = before.model_copy(update={"asked": {t: _with_end(facts, asked) for t, asked in before.asked.items()}})
    lagging = [topic for topic in sorted(facts.ends) if _lags(facts.ends[topic], facts.positions.get(topic, []))]
    copied_by = _copied_by(facts, heard)
    due = [topic for topic in lagging if _due(facts, before.asked.get(topic), facts.positions.get(topic, []))]
    kept = {topic: asked for topic, asked in before.asked.items() if topic in lagging or topic == MAPPINGS}
    if due and not copied_by:
        asked = {topic: _ask(before.asked.get(topic), facts.positions.get(topic, []), facts.now) for topic in due}
        cursor = seen.model_copy(update={"asked": {**kept, **asked}})
        return RunDecision(topics=tuple(due), run_key=_run_key(due, facts), cursor=cursor)
    all_positions = [p for topic in sorted(facts.positions) for p in facts.positions[topic]]
    if facts.mappings is not None and facts.mappings != facts.positions:
        if _due(facts, before.asked.get(MAPPINGS), all_positions):
            mine = {MAPPINGS: _ask(before.asked.get(MAPPINGS), all_positions, facts.now)}
            cursor = seen.model_copy(update={"asked": {**kept, **mine}})
            return RunDecision(run_key=_run_key([MAPPINGS], facts), cursor=cursor)
    else:
        kept.pop(MAPPINGS, None)
    reason = copied_by if copied_by and lagging else _reason(facts, lagging, before)
    return RunDecision(reason=reason, cursor=seen.model_copy(update={"asked": kept}))


def _heard(facts: SensorFacts, before: Cursor) -> dict[str, Heard]:
    """An instance that is seen for the first time counts as alive until the heartbeat timeout has passed."""
    heard = {}
    for name, presence in facts.instances.items():
        known = before.heard.get(name)
        if known is None or presence.sign > known.sign:
            known = Heard(sign=presence.sign, time=facts.now)
        heard[name] = known
    return heard


def _copied_by(facts: SensorFacts, heard: Mapping[str, Heard]) -> str:
    """Why nothing is asked to copy, in words; empty if no continuous instance lives.

    From the end of the look that heard of it to the beginning of this one: a look that stalls is nobody's silence.
    """
    living = [
        p.who
        for name, p in sorted(facts.instances.items())
        if facts.looked - heard[name].time < facts.heartbeat_timeout
    ]
    if not living:
        return ""
    return (
        f"copied without end by {', '.join(living)}: a run would take its partitions over and hand them back. Stop it "
        "(`k2k start`) to let runs copy"
    )


def _lags(ends: Sequence[int], positions: Sequence[int | None]) -> bool:
    padded = [*positions, *[None] * len(ends)]
    return any(position is None or position < end for end, position in zip(ends, padded, strict=False))


def _due(facts: SensorFacts, asked: RequestedRun | None, positions: Positions) -> bool:
    return asked is None or asked.positions != positions or facts.now >= _ready(asked)


def _with_end(facts: SensorFacts, asked: RequestedRun) -> RequestedRun:
    """The run that ended first since then was the one that was asked for; later ones of other topics do not count."""
    if asked.ended is not None or facts.last_ended is None or facts.last_ended < asked.time:
        return asked
    return asked.model_copy(update={"ended": facts.last_ended})


def _ready(asked: RequestedRun) -> float:
    return (asked.ended or asked.time) + back_off(asked.attempts)


def back_off(attempts: int) -> float:
    """Seconds to wait after so many requests that nothing came of."""
    return min(LONGEST_BACK_OFF, FIRST_BACK_OFF * 2.0 ** min(attempts - 1, 10))


def _ask(before: RequestedRun | None, positions: Positions, now: float) -> RequestedRun:
    again = before is not None and before.positions == positions
    return RequestedRun(positions=positions, attempts=before.attempts + 1 if before and again else 1, time=now)


def _run_key(topics: Sequence[str], facts: SensorFacts) -> str:
    """Differs after each run, so that what a failed one did not do is asked for again."""
    wanted: Mapping[str, object] = {
        "topics": list(topics),
        "positions": {topic: facts.positions.get(topic) for topic in topics},
        "ends": {topic: facts.ends.get(topic) for topic in topics},
        "after": facts.last_run,
    }
    return hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:24]


def _reason(facts: SensorFacts, lagging: Sequence[str], before: Cursor) -> str:
    if not facts.ends:
        return "no topic of the source is selected"
    if not lagging:
        return f"all {len(facts.ends)} topics are copied up to the end of the source"
    waits = []
    for topic in lagging:
        asked = before.asked[topic]
        seconds = max(0.0, _ready(asked) - facts.now)
        waits.append(f"{topic} ({asked.attempts} runs without progress, next in {seconds:.0f} s)")
    return f"waiting before asking again for {', '.join(waits)}"
