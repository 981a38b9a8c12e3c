"""Measures the mapper: how long a poll of many groups takes, with all of them moved, some, or none.

    python -m benchmarks.groups                       # 1000 groups with 100 partitions each
    python -m benchmarks.groups --groups 100          # fewer, to try the benchmark itself
    python -m benchmarks.groups --append              # the same, appended to RESULTS.md

A topic is copied for real, so that its mappings are what a replicator writes; then groups are generated on the source,
and a mapper polls. Both brokers run on the same cores as the mapper, as in all measurements here.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as KafkaTopicPartition

from benchmarks import machine, report
from benchmarks.lab import Lab
from benchmarks.pipelines import Settings, write_pipeline
from benchmarks.sizes import Load
from k2k_assets.groups.committer import GroupCommitter
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.groups.poller import Poller
from k2k_assets.groups.position_translator import PositionTranslator
from k2k_assets.groups.report import PollResult
from k2k_assets.groups.source_groups import SourceGroups
from k2k_assets.groups.target_groups import TargetGroups
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.replication.driver.replicate import replicate_with
from k2k_assets.replication.extent import UntilCaughtUp
from k2k_assets.replication.slot.task import copy_slot

PARTITIONS = 100
RECORDS = 1000  # in each partition
IN_FLIGHT = 64
ROUNDS = 3
GOAL_SECONDS = 5.0
_SECONDS = 60.0

# The steps of a poll, and where each is.
_STEPS: dict[str, tuple[Any, str]] = {
    "read source": (SourceGroups, "observe"),
    "translate": (PositionTranslator, "translate"),
    "read target": (TargetGroups, "observe"),
    "decide": (Poller, "_decide"),
    "commit": (GroupCommitter, "commit"),
}


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.groups", description=__doc__.split("\n")[0])
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    options = parser.parse_args()
    with Lab() as lab:
        report.progress("copying a topic")
        pipeline = _copied(lab)
        rows = _measured(lab, pipeline, options.groups)
    size = f"{options.groups:,} groups with {PARTITIONS} partitions each; one line a poll, in seconds"
    title = f"### Consumer groups\n\n{size}"
    words = machine.listed()
    head = ["poll", "groups committed", "seconds", *_STEPS, "goal"]
    sections = [f"{title}\n\n{words}", report.table(head, rows)]
    report.publish(sections, options.append)


def _copied(lab: Lab) -> Pipeline:
    """A pipeline whose topic has been copied; without Spark, which has no part in what is measured."""
    load = Load("group-bench", 100, PARTITIONS * RECORDS, PARTITIONS)
    lab.ensure_loaded(load)
    pipeline = load_pipeline([write_pipeline(lab, "groups", load.topic, Settings(exactly_once=True))])

    def run_slots(plans: Any) -> list[Any]:
        with ThreadPoolExecutor(len(plans)) as pool:
            return list(pool.map(copy_slot, plans))

    replicate_with(run_slots, 2, pipeline, UntilCaughtUp())
    return pipeline


def _measured(lab: Lab, pipeline: Pipeline, count: int) -> list[list[str]]:
    names = [f"bench-group-{number}" for number in range(count)]
    rng = random.Random(1)
    report.progress("generating groups")
    _set_positions(lab, names, rng)
    with Poller(pipeline, lab.source, lab.target) as poller:
        poller.start()
        rows = [_poll("all groups are new", poller, count)]
        for _ in range(ROUNDS):
            rows.append(_poll("nothing moved", poller, 0))
            moved = rng.sample(names, max(1, count // 10))
            _set_positions(lab, moved, rng)
            rows.append(_poll("a tenth moved", poller, len(moved)))
            _set_positions(lab, names, rng)
            rows.append(_poll("all moved", poller, count))
    return rows


def _set_positions(lab: Lab, groups: Sequence[str], rng: random.Random) -> None:
    """Commits new positions on the source, as so many applications would."""
    asked: deque[Future[Any]] = deque()
    for group in groups:
        wanted = [KafkaTopicPartition("group-bench", p, rng.randrange(RECORDS)) for p in range(PARTITIONS)]
        question = [ConsumerGroupTopicPartitions(group, wanted)]
        asked.append(lab.source.admin.alter_consumer_group_offsets(question, request_timeout=_SECONDS)[group])
        if len(asked) == IN_FLIGHT:
            asked.popleft().result(_SECONDS)
    while asked:
        asked.popleft().result(_SECONDS)


def _poll(what: str, poller: Poller, expected: int) -> list[str]:
    with _timed() as seconds:
        started = time.perf_counter()
        result = poller.poll()
        total = time.perf_counter() - started
    _check(result, expected)
    report.progress(f"{what}: {total:.2f} s")
    goal = f"under {GOAL_SECONDS:g}: {'yes' if total < GOAL_SECONDS else 'NO'}"
    return [what, f"{len(result.committed):,}", f"{total:.2f}", *(f"{seconds[step]:.2f}" for step in _STEPS), goal]


def _check(result: PollResult, expected: int) -> None:
    """Raises if the poll did not do what is measured."""
    if result.failed or set(result.decision_counts) != {CommitDecision.EXACT}:
        raise RuntimeError(f"failed: {dict(result.failed)}; said of partitions: {dict(result.decision_counts)}")
    if len(result.committed) < expected:
        raise RuntimeError(f"{len(result.committed)} groups were committed instead of {expected}")


@contextmanager
def _timed() -> Iterator[dict[str, float]]:
    """The seconds that each step takes meanwhile."""
    seconds = dict.fromkeys(_STEPS, 0.0)

    def timed(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **rest: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*args, **rest)
            finally:
                seconds[step] += time.perf_counter() - started

        return call

    originals = {step: getattr(owner, name) for step, (owner, name) in _STEPS.items()}
    for step, (owner, name) in _STEPS.items():
        setattr(owner, name, timed(step, originals[step]))
    try:
        yield seconds
    finally:
        for step, (owner, name) in _STEPS.items():
            setattr(owner, name, originals[step])


if __name__ == "__main__":
    main()
