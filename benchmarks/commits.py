"""Reads from a run's commit topic when it copied what: the time between its first and its last commit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from benchmarks.lab import Lab
from benchmarks.pipelines import commit_topic
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.log_reader import LogReader

_READ_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Span:
    """Between the first and the last commit of a run.

    Attributes:
        start: Seconds since the epoch.
        end: Likewise.
        records: Copied in between.
        transactions: Committed in the whole run.
        slots: Copied in it.
    """

    start: float
    end: float
    records: int
    transactions: int
    slots: int

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start


def read_span(lab: Lab, run: str) -> Span:
    """The span of a run that is over."""
    partitions = lab.target.partitions_of([commit_topic(run)])
    starts, ends = lab.target.offsets(partitions, "earliest"), lab.target.offsets(partitions, "stable")
    records: list[CommitRecord] = []
    properties = {"bootstrap.servers": lab.sandbox.target_servers}
    with LogReader(properties, starts, committed_only=True) as reader:
        for batch in reader.read_until(ends, Deadline(_READ_SECONDS)):
            records += [CommitRecord.parse(m.key(), m.value(), f"offset {m.offset()}") for m in batch]
    return span_of(records)


def span_of(records: list[CommitRecord]) -> Span:
    """The span that commit records tell of.

    A slot that commits for the first time after the other one had part of its records in hand by then: that part is
    taken from the straight line between its start and its first commit.
    """
    curves = _curves(records)
    grown = [_growth(times, copied) for times, copied in curves.values()]
    grown = [(first, last) for first, last in grown if last]
    if not grown:
        raise ValueError("the run committed no records")
    start, end = min(first for first, _ in grown), max(last for _, last in grown)
    before = sum(float(np.interp(start, times, copied)) for times, copied in curves.values())
    total = sum(copied[-1] for _, copied in curves.values())
    transactions = len({(r.slot, r.sequence) for r in records if r.kind != "start"})
    return Span(start, end, round(total - before), transactions, len(grown))


def _curves(records: list[CommitRecord]) -> dict[int, tuple[list[float], list[int]]]:
    """For each slot the times of its transactions and the records that it had copied by then."""
    curves: dict[int, tuple[list[float], list[int]]] = defaultdict(lambda: ([], []))
    copied: dict[TopicPartition, int] = {}
    of_slot: dict[int, int] = defaultdict(int)
    ordered = sorted(records, key=lambda r: (r.slot, r.sequence, r.time))
    for record in ordered:
        of_slot[record.slot] += record.records - copied.get(record.source, 0)
        copied[record.source] = record.records
        times, counts = curves[record.slot]
        times.append(record.time / 1000)
        counts.append(of_slot[record.slot])
    return curves


def _growth(times: list[float], copied: list[int]) -> tuple[float, float]:
    """When the first and the last records of a slot were committed; zeros if there were none."""
    first = next((time for time, count in zip(times, copied, strict=True) if count), 0.0)
    last = next((time for time, count in zip(times, copied, strict=True) if count == copied[-1] > 0), 0.0)
    return first, last
