"""Decides when a sensor requests the next run of a continuous job. Pure, so that every case can be tested.

One run of the job works at a time: it copies, or moves groups. After `sync.window` the sensor requests the next run,
which takes over while the first one still works. A run without heartbeats is dead, whatever its status in Dagster. The
sensor requests no run while a `k2k start` or a `k2k-offset-mapping` does the work, or after somebody has terminated the
last run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, field_validator

from k2k_assets.coordination.liveness import LastSign, Presence, last_signs
from k2k_assets.core.words import plural
from k2k_assets.orchestration.sensors.asked_reloads import AskedReloads
from k2k_assets.orchestration.sensors.marks import Marks
from k2k_assets.orchestration.sensors.sensor_cursor import SensorCursor

VERSION = 3
# One failure may not be the pipeline's: a process that was killed, a restart of Dagster.
FIRST_BACK_OFF = 5.0
LONGEST_BACK_OFF = 900.0
# A run that lasted for so long before it failed causes no wait, and one that has worked causes none at all.
GOOD_SECONDS = 300.0
# Longest time from the launch of a run to the begin of its process, and of silence while a run ends.
START_SECONDS = 180.0
# Longest time from the begin of a run's process to its first heartbeat.
FIRST_HEARTBEAT_SECONDS = 60.0
# Largest part of the heartbeat timeout that counts between two ticks.
_COUNTED = 2 / 3


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


@dataclass(frozen=True, slots=True)
class Wording:
    """Phrases about the work of a job, for messages.

    Attributes:
        does: What a run does.
        done: What a run has done after its window.
        by_others: Introduces others that do the work.
        undone: Says that nobody does the work.
        job: The job.
        key: Prefix of the keys of its runs.
    """

    does: str
    done: str
    by_others: str
    undone: str
    job: str
    key: str


COPYING = Wording(
    does="copies",
    done="has copied",
    by_others="copied without end by",
    undone="nothing is copied",
    job="the sync job",
    key="sync",
)
MOVING_GROUPS = Wording(
    does="moves the groups",
    done="has moved the groups",
    by_others="the groups are moved by",
    undone="no group is moved",
    job="the offset sync job",
    key="groups",
)


class WatchCursor(SensorCursor):
    """The cursor of a sensor that follows heartbeats.

    Attributes:
        heard: The last sign of life of each instance, or mapper.
        looked: End of the last observation, seconds since the epoch.
        missed: Whether one has failed since, so that nobody may have been able to write a heartbeat.
    """

    heard: dict[str, LastSign] = {}
    looked: float = 0.0
    missed: bool = False

    def heard_until(self, looked: float, timeout: float) -> dict[str, LastSign]:
        """The last signs, with times as if this observation had come soon after the last one.

        A long time without ticks (the machine slept, the daemon was stopped) or a changed clock is not the silence of
        an instance. Nor is the time in which an observation failed; it does not end an earlier silence either. So an
        instance counts as dead only after at least two observations without a sign.

        Args:
            looked: Begin of this observation.
            timeout: The heartbeat timeout, seconds.
        """
        if not self.looked:
            return {}  # a cursor of an earlier release, which did not note it
        passed = looked - self.looked
        counted = 0.0 if self.missed else min(max(passed, 0.0), _COUNTED * timeout)
        return {who: LastSign(last.sign, last.time + passed - counted) for who, last in self.heard.items()}


class SyncCursor(WatchCursor):
    """The cursor of the replication sensor.

    Attributes:
        stopped: Marks of the stopped topics and their reasons.
        reported: Marks of the reported data versions of topics that `k2k start` copies.
        reported_at: Time of the report, seconds since the epoch.
        reported_last: The last topic of the report.
        log_is_due: Whether the next tick reports the commit log.
        reloads: What was done so that the UI shows discovered topics and groups.
    """

    version: int = VERSION
    stopped: str = ""
    reported: str = ""
    reported_at: float = 0.0
    reported_last: str = ""
    log_is_due: bool = False
    reloads: AskedReloads = AskedReloads()

    @field_validator("stopped", "reported")
    @classmethod
    def _are_marks(cls, text: str) -> str:
        return Marks(text).packed


class ActiveRun(_Model):
    """A run that has not ended.

    Attributes:
        run_id: Its id.
        number: Its number in Dagster's storage, which counts the runs as they are created.
        waits: Whether it is still in Dagster's queue.
        ends: Whether somebody has terminated it.
        started: Whether its process has begun.
        gone: Whether its process has certainly ended (`run_process`), or nobody is left to launch it.
        worked: Whether it has done any of its work (`run_tags`).
        since: Time when it began; before that when it was launched, or queued; seconds since the epoch.
        window: Its window in seconds, if longer than `sync.window`.
    """

    run_id: str
    number: int = 0
    waits: bool = False
    ends: bool = False
    started: bool = False
    gone: bool = False
    worked: bool = False
    since: float
    window: float | None = None


class EndedRun(_Model):
    """A run that has ended.

    Attributes:
        run_id: Its id.
        number: Its number in Dagster's storage.
        how: How it ended.
        started: Begin, seconds since the epoch.
        ended: End, seconds since the epoch.
        gone: Whether its process has certainly ended, too.
        worked: Whether it had done any of its work.
    """

    run_id: str
    number: int = 0
    how: Literal["success", "failure", "canceled"]
    started: float
    ended: float
    gone: bool = False
    worked: bool = False


class SyncFacts(_Model):
    """The facts of a tick.

    Attributes:
        looked: Begin of the observation of the clusters, seconds since the epoch.
        now: End of the observation, seconds since the epoch.
        switched_on: Time when the sensor was switched on, seconds since the epoch.
        window: `sync.window` in seconds.
        nothing_to_do: Why no run is needed; empty if one is.
        active: Runs of the job that have not ended, the newest first.
        ended: The newest runs that have ended, the newest first.
        instances: Continuous instances, or mappers, by name.
        heartbeats: Offset of the last heartbeat of each active run that has no slot yet, by run id.
        heartbeat_timeout: Seconds without a heartbeat after which an instance counts as dead.
    """

    looked: float
    now: float
    switched_on: float = 0.0
    window: float
    nothing_to_do: str = ""
    active: tuple[ActiveRun, ...] = ()
    ended: tuple[EndedRun, ...] = ()
    instances: dict[str, Presence] = {}
    heartbeats: dict[str, int] = {}
    heartbeat_timeout: float


class SyncDecision(_Model):
    """The decision of a tick.

    Attributes:
        run_key: Key of the run to request; None to request none.
        reason: The reason, for people.
        dead: Ids of runs whose process has ended, for Dagster to know it.
        run_reports: Whether only runs of the job do the work; these report by themselves.
        others: Others that do the work; empty if none.
        heard: The last signs of life, for the cursor.
    """

    run_key: str | None = None
    reason: str
    dead: tuple[str, ...] = ()
    run_reports: bool = False
    others: str = ""
    heard: dict[str, LastSign]


def decide_sync(facts: SyncFacts, before: Mapping[str, LastSign], words: Wording = COPYING) -> SyncDecision:
    """Decides a tick.

    Args:
        facts: The facts of the tick.
        before: The last signs of life from the cursor.
        words: Phrases about the work.
    """
    signs = {name: presence.sign for name, presence in facts.instances.items()}
    heard = last_signs({**signs, **facts.heartbeats}, before, facts.now)
    heard |= _of_runs(facts, heard, before)
    # Silence counts from the end of one observation to the begin of the next: a slow observation is no silence.
    living = {name for name in facts.instances if heard[name].is_alive(facts.looked, facts.heartbeat_timeout)}
    dead = tuple(run.run_id for run in facts.active if _is_dead(run, facts, heard))
    active = [run for run in facts.active if run.run_id not in dead]
    others = _others(facts, living, active)

    def answer(reason: str, asks: bool = False) -> SyncDecision:
        newest = _newest(facts)
        key = f"{words.key}-after-{newest.run_id if newest else 'none'}" if asks else None
        reports = not others and any(not run.waits for run in active)
        return SyncDecision(run_key=key, reason=reason, dead=dead, run_reports=reports, others=others, heard=heard)

    # The clock may have been set back.
    wait = min(_ready(facts.ended) - facts.now, LONGEST_BACK_OFF)
    failed = f"the last {plural(_failures(facts.ended), 'run')} failed; the next one in {wait:.0f} s"
    if any(_is_good(run.worked, facts.now - run.since) for run in facts.active if run.run_id in dead):
        wait = 0.0  # those that failed did so before it
    if active:
        youngest = active[0]
        if youngest.waits:
            return answer(f"run {youngest.run_id} {words.does} as soon as it leaves Dagster's queue")
        if youngest.ends:
            return answer(f"run {youngest.run_id} is being terminated")
        if facts.now - youngest.since < (youngest.window or facts.window):
            return answer(f"run {youngest.run_id} {words.does}")
        if wait > 0:
            return answer(f"run {youngest.run_id} {words.done} for its window; {failed}")
        return answer(f"run {youngest.run_id} {words.done} for its window; the next one takes over", asks=True)
    if others:
        return answer(f"{words.by_others} {others}; stop it to let runs do it")
    if facts.nothing_to_do:
        return answer(facts.nothing_to_do)
    if terminated := _terminated(facts):
        return answer(
            f"run {terminated} was terminated by hand: {words.undone} until the sensor is switched off and on "
            f"again, or {words.job} is launched"
        )
    if dead and wait > 0:
        return answer(f"run {', '.join(dead)} is dead; {failed}")
    if dead:
        return answer(f"run {', '.join(dead)} is dead; the next one takes over", asks=True)
    if wait > 0:
        return answer(failed)
    return answer(words.undone, asks=True)


def back_off(attempts: int) -> float:
    """Seconds to wait after so many attempts in a row that failed."""
    return min(LONGEST_BACK_OFF, FIRST_BACK_OFF * 2.0 ** min(attempts - 1, 10))


def _newest(facts: SyncFacts) -> ActiveRun | EndedRun | None:
    """The run that was created last; None if there is none.

    Its id names the next one: a tick that is evaluated twice asks for the same run, and after that run was created no
    tick asks for it again. By times, of several clocks, an earlier run may seem to be the newest, and Dagster drops a
    request whose key it knows.
    """
    known: list[ActiveRun | EndedRun] = [*facts.active, *facts.ended]
    return max(known, key=lambda run: run.number, default=None)


def _is_dead(run: ActiveRun, facts: SyncFacts, heard: Mapping[str, LastSign]) -> bool:
    """Whether a run's process has ended, has stopped its heartbeats, or wrote none for long after the launch.

    A run that is ending, because it was terminated or another run has taken over, writes none for a while.
    """
    if run.waits or run.gone:
        return run.gone
    last = heard.get(run.run_id)
    if last is None:
        return facts.now - run.since >= (FIRST_HEARTBEAT_SECONDS if run.started else START_SECONDS)
    beats = run.run_id in facts.heartbeats or any(each.run == run.run_id for each in facts.instances.values())
    ends = run.ends or run != facts.active[0]
    patience = facts.heartbeat_timeout if beats else max(facts.heartbeat_timeout, FIRST_HEARTBEAT_SECONDS)
    return not last.is_alive(facts.looked, START_SECONDS if ends else patience)


def _of_runs(facts: SyncFacts, heard: Mapping[str, LastSign], before: Mapping[str, LastSign]) -> dict[str, LastSign]:
    """The last sign of each run, its own or of one of its instances; between two steps a run has none, and keeps it."""
    found: dict[str, LastSign] = {}
    for run in facts.active:
        names = [run.run_id, *(name for name, presence in facts.instances.items() if presence.run == run.run_id)]
        known = [last for name in names if (last := heard.get(name) or before.get(name))]
        if known:
            found[run.run_id] = max(known, key=lambda last: last.time)
    return found


def _others(facts: SyncFacts, living: set[str], active: Sequence[ActiveRun]) -> str:
    """Living instances that belong neither to the runs nor to processes that have ended."""
    known: list[ActiveRun | EndedRun] = [*facts.active, *facts.ended]
    runs = {run.run_id for run in active} | {run.run_id for run in known if run.gone}
    return ", ".join(sorted(facts.instances[name].who for name in living if facts.instances[name].run not in runs))


def _terminated(facts: SyncFacts) -> str:
    """Id of the newest run, if somebody has terminated it since the sensor was switched on; empty if nobody has.

    Its process may have ended before it could say so.
    """
    newest = _newest(facts)
    if isinstance(newest, ActiveRun):
        return newest.run_id if newest.ends else ""
    is_terminated = newest is not None and newest.how == "canceled" and newest.ended > facts.switched_on
    return newest.run_id if newest is not None and is_terminated else ""


def _failures(ended: Sequence[EndedRun]) -> int:
    """Number of consecutive runs that failed at their start, up to the newest one."""
    count = 0
    for run in ended:
        if run.how != "failure" or _is_good(run.worked, run.ended - run.started):
            break
        count += 1
    return count


def _is_good(worked: bool, lasted: float) -> bool:
    """Whether a run had started well before it failed: the next one will, too."""
    return worked or lasted >= GOOD_SECONDS


def _ready(ended: Sequence[EndedRun]) -> float:
    """Time from which the next run may be requested, seconds since the epoch."""
    failures = _failures(ended)
    return ended[0].ended + back_off(failures) if failures else 0.0
