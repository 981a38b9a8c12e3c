"""Copies the loads with the copier in Go, and measures the same as of this project."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from benchmarks.copying import HEADERS, Copied, row
from benchmarks.franz_copier import FranzCopier, Report
from benchmarks.lab import Lab, delete_topics
from benchmarks.passes import markers, measure_pass, missing_and_doubled, warm_up
from benchmarks.report import say, table
from benchmarks.sizes import Load, Sizes

_MODE = "exactly once"


def measure_copies(lab: Lab, sizes: Sizes, binary: Path) -> list[list[str]]:
    """Rows of the table of copies."""
    rows = []
    for codec, loads in groupby(sizes.compared, lambda load: load.codec):
        rows += _copies(lab, sizes, binary, codec, list(loads))
    return rows


def fault_of(report: Report, expected: int, ends: dict[str, int]) -> str:
    """What is wrong with what the copier says of itself; empty: nothing.

    Args:
        report: Its report.
        expected: Records that were there to be copied.
        ends: The ends of all partitions on the source.
    """
    if report.records != expected:
        return f"{report.records} of {expected} records were copied"
    if dict(report.positions) != ends:
        return f"it ended at {dict(report.positions)}, the source at {ends}"
    return ""


def _copies(lab: Lab, sizes: Sizes, binary: Path, codec: str, loads: list[Load]) -> list[list[str]]:
    """Rows of loads of one compression, copied by one process.

    Raises:
        RuntimeError: Not all was copied, or something twice.
    """
    rows = []
    for load in loads:
        lab.ensure_loaded(load)
    topics = [load.topic for load in loads]
    with FranzCopier(lab, binary, f"franz-{codec}", topics, codec) as copier:
        warm_up(lab, copier, loads, _MODE)
        for load in loads:
            runs = [_checked_pass(lab, load, copier) for _ in range(sizes.repeat)]
            rows.append(row("franz-go", load, _MODE, runs, markers(lab, load, copier)))
            say(table(HEADERS, rows[-1:]).splitlines()[-1])
    ends = lab.source.offsets(lab.source.partitions_of(topics), "latest")
    named = {f"{tp.topic}/{tp.partition}": end for tp, end in ends.items()}
    if fault := fault_of(copier.report(), sum(load.records for load in loads) * (1 + sizes.repeat), named):
        raise RuntimeError(f"franz-go: {fault}")
    delete_topics(lab.target, [copier.positions_topic, *(copier.prefix + topic for topic in topics)])
    return rows


def _checked_pass(lab: Lab, load: Load, copier: FranzCopier) -> Copied:
    copied = measure_pass(lab, load, copier)
    missing, doubled = missing_and_doubled(lab, load, copier)
    if missing or doubled:
        raise RuntimeError(f"franz-go: of {load.title} {missing} records are missing on the target, {doubled} too many")
    return copied
