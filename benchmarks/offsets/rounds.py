"""The measurement itself: writes, waits for the copy, commits groups, watches the target; one tool after the other."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum

import numpy as np

from benchmarks.lab import Lab, create_topic
from benchmarks.offsets.content import Error, Follower, error_of
from benchmarks.offsets.plan import KINDS, PARTITIONS, Kind, Plan
from benchmarks.offsets.positions import Member, Watched, commit, held, watch
from benchmarks.offsets.tools import Check, Tool
from benchmarks.offsets.traffic import Writer
from benchmarks.report import progress
from k2k_assets.core.topic_partition import TopicPartition

_COPY_SECONDS = 300.0
_WRITE_SECONDS = 300.0


class Phase(Enum):
    """When groups were committed."""

    START = "before the tool started"
    LIVE = "right after live writing"
    IDLE = "after a pause"


@dataclass(frozen=True, slots=True)
class Sample:
    """One partition of one group.

    Attributes:
        tool: Key of what moved it.
        kind: Of topic.
        lag: Of the group.
        phase: When it was committed.
        error: None: untranslated, there is no commit on the target.
        seconds: From the commits on the source to the last change on the target; None: it did not move.
    """

    tool: str
    kind: Kind
    lag: int
    phase: Phase
    error: Error | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class _Look:
    phase: Phase
    positions: dict[Member, int]
    committed: float
    seen: Watched


class Experiment:
    """Source topics and groups, and what tools did with them; used as a context manager.

    Args:
        lab: Where the clusters are.
        plan: How much.
    """

    def __init__(self, lab: Lab, plan: Plan) -> None:
        self._lab, self._plan = lab, plan
        self._draw = np.random.default_rng(7)
        self._positions: dict[Member, int] = {}
        self._moving = {kind.group(lag): (kind, lag) for kind in KINDS for lag in plan.lags}
        self._early = {kind.group(lag, early=True): (kind, lag) for kind in KINDS for lag in plan.lags}
        self._groups = {**self._moving, **self._early}

    def __enter__(self) -> Experiment:
        for kind in KINDS:
            create_topic(self._lab.source, kind.topic, PARTITIONS)
        self._writers = {kind: Writer(self._lab.sandbox.source_servers, kind) for kind in KINDS}
        self._write([self._plan.records] * PARTITIONS, None)
        self._stack = ExitStack()
        self._source = self._stack.enter_context(Follower(self._lab.source, [kind.topic for kind in KINDS]))
        self._read_source()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def measure(self, tool: Tool) -> list[Sample]:
        """Lets one tool copy everything and move the groups, round after round, and ends it.

        Raises:
            TimeoutError: Something took too long.
            RuntimeError: The tool ended by itself, or what it copied is not what is on the source.
        """
        self._commit(self._early)
        # A tool that copies a stretch while a group stands in it translates better than ever after. What these groups
        # come to later must not profit from that.
        commit(self._lab.source, {Member(group, at): 0 for group, at in self._members(self._moving)})
        with tool.run(self._lab) as check, Follower(self._lab.target, self._topics(tool)) as target:
            looks = [self._start(tool, target, check)]
            for _ in range(self._plan.rounds):
                looks.append(self._round(Phase.LIVE, tool, target, check))
            looks.append(self._round(Phase.IDLE, tool, target, check))
        self._compare(tool, target)
        return [sample for look in looks for sample in self._samples(tool, target, look)]

    def _start(self, tool: Tool, target: Follower, check: Check) -> _Look:
        target.read_to(self._last(tool.prefix), _COPY_SECONDS, check)
        progress(f"{tool.title}: copied all")
        return self._look(Phase.START, tool, check, {}, time.monotonic())

    def _round(self, phase: Phase, tool: Tool, target: Follower, check: Check) -> _Look:
        least, most = self._plan.more
        self._write([int(n) for n in self._draw.integers(least, most + 1, PARTITIONS)], self._plan.rate)
        self._read_source()
        target.read_to(self._last(tool.prefix), _COPY_SECONDS, check)
        if phase is Phase.IDLE:
            time.sleep(self._plan.idle_seconds)
        before = held(self._lab.target, self._moving, self._topics(tool))
        committed = time.monotonic()
        self._commit(self._moving)
        look = self._look(phase, tool, check, before, committed)
        slowest = max((at - committed for at in look.seen.moved.values()), default=0.0)
        progress(f"{tool.title}: groups committed {phase.value}, the last moved after {slowest:.1f} s")
        return look

    def _look(self, phase: Phase, tool: Tool, check: Check, before: dict[Member, int], committed: float) -> _Look:
        # A tool that has only just started may take longer to come to the groups.
        still = self._plan.still_seconds * (3 if phase is Phase.START else 1)
        groups = self._early if phase is Phase.START else self._moving
        seen = watch(self._lab.target, groups, self._topics(tool), before, still, check)
        positions = {member: self._positions[member] for member in self._members(groups)}
        return _Look(phase, positions, committed, seen)

    def _samples(self, tool: Tool, target: Follower, look: _Look) -> Iterable[Sample]:
        for (group, at), position in look.positions.items():
            kind, lag = self._groups[group]
            there = Member(group, TopicPartition(f"{tool.prefix}{at.topic}", at.partition))
            answer, moved = look.seen.offsets.get(there), look.seen.moved.get(there)
            error = None
            if answer is not None:
                error = error_of(self._source.contents[at], position, target.contents[there.partition], answer)
            timed = moved is not None and look.phase is not Phase.START
            yield Sample(tool.key, kind, lag, look.phase, error, moved - look.committed if timed and moved else None)

    def _commit(self, groups: Iterable[str]) -> None:
        """Lets groups stand at their lags."""
        ends = self._lab.source.offsets(self._source.contents, "stable")
        wanted = {
            Member(group, at): self._source.contents[at].position(self._groups[group][1], ends[at])
            for group, at in self._members(groups)
        }
        self._positions |= wanted
        commit(self._lab.source, wanted)

    def _members(self, groups: Iterable[str]) -> list[Member]:
        return [
            Member(group, at)
            for group in groups
            for at in self._source.contents
            if at.topic == self._groups[group][0].topic
        ]

    def _write(self, counts: list[int], rate: int | None) -> None:
        """Writes to both topics at once."""
        with ThreadPoolExecutor(len(KINDS)) as pool:
            asked = [pool.submit(writer.write, counts, _WRITE_SECONDS, rate) for writer in self._writers.values()]
            for future in asked:
                future.result()

    def _read_source(self) -> None:
        self._source.read_to(self._last(""), _COPY_SECONDS, lambda: None)

    def _last(self, prefix: str) -> dict[TopicPartition, int]:
        return {
            TopicPartition(f"{prefix}{kind.topic}", partition): number
            for kind, writer in self._writers.items()
            for partition, number in enumerate(writer.last)
        }

    def _topics(self, tool: Tool) -> list[str]:
        return [f"{tool.prefix}{kind.topic}" for kind in KINDS]

    def _compare(self, tool: Tool, target: Follower) -> None:
        """Raises unless the copy is the source, record by record."""
        for at, content in self._source.contents.items():
            copy = target.contents[TopicPartition(f"{tool.prefix}{at.topic}", at.partition)]
            if copy.numbers != content.numbers:
                raise RuntimeError(
                    f"{tool.title}: {at} has {len(content.numbers)} records, its copy {len(copy.numbers)}, "
                    f"{len(set(copy.numbers))} of them distinct: not the same"
                )
