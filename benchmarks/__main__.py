"""The command line of the benchmark: chooses the parts, runs them one after the other, keeps the results."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import (
    copying,
    forms,
    franz_copier,
    franz_runs,
    latency,
    machine,
    memory,
    mirror_maker,
    mirror_runs,
    pipelines,
    report,
    starting,
)
from benchmarks.lab import BROKER_SETTINGS, LOAD_SETTINGS, Lab
from benchmarks.sampling import require_proc
from benchmarks.sizes import Sizes, chosen

PARTS = ("copy", "forms", "latency", "start", "memory", "mm2", "franz")


def main() -> None:
    """Runs the benchmark."""
    options = _options()
    require_proc()
    sizes = chosen(options.quick, options.records, options.repeat)
    parts = options.only or list(PARTS)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="k2k-bench-build-") as folder:
        binary = franz_copier.build(Path(folder)) if "franz" in parts else None
        parts = [part for part in parts if part != "franz" or binary]
        sections = _head(sizes, parts)
        report.say("\n\n".join(sections))
        with Lab() as lab:
            report.progress("both brokers are up")
            sections += _measure(lab, sizes, parts, binary)
    report.say("\n\n" + "\n\n".join(sections[len(_head(sizes, parts)) :]))
    report.progress(f"done in {time.monotonic() - started:.0f} s")
    if sizes.full:
        report.append(sections)
        report.progress(f"appended to {report.RESULTS.name}")
    else:
        report.progress("not a full run: nothing appended to the results")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", type=_parts, help=f"parts to run, with commas: {','.join(PARTS)}")
    parser.add_argument("--records", type=int, help="records of 100 B (a quarter of it of 1 KB) in a copy")
    parser.add_argument("--repeat", type=int, help="how often each copy is measured")
    parser.add_argument("--quick", action="store_true", help="small amounts, to try the benchmark itself")
    return parser.parse_args()


def _parts(text: str) -> list[str]:
    unknown = sorted(set(text.split(",")) - set(PARTS))
    if unknown:
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return text.split(",")


def _measure(lab: Lab, sizes: Sizes, parts: list[str], franz: Path | None) -> list[str]:
    """The sections of results; one thing at a time, and this project before the others fill its topics anew."""
    copies: list[list[str]] = []
    delays: list[list[str]] = []
    starts: list[list[str]] = []
    memories: list[list[str]] = []
    steps: list[tuple[str, list[list[str]], Callable[[Lab, Sizes], list[list[str]]]]] = [
        ("copy", copies, copying.measure),
        ("forms", copies, forms.measure),
        ("latency", delays, latency.measure),
        ("start", starts, starting.measure),
        ("memory", memories, memory.measure),
        ("mm2", copies, mirror_runs.measure_copies),
        ("mm2", delays, mirror_runs.measure_latency),
    ]
    if franz:
        steps.append(("franz", copies, partial(franz_runs.measure_copies, binary=franz)))
    for part, rows, step in steps:
        if part in parts:
            report.progress(part)
            rows += step(lab, sizes)
    titled = [
        ("### Copies\n\nCPU in us per record, medians", copying.HEADERS, copies),
        ("### From produced to visible", latency.HEADERS, delays),
        ("### Starts: medians, least and most", starting.HEADERS, starts),
        ("### Memory of the largest worker, MB", memory.HEADERS, memories),
    ]
    return [f"{title}\n\n{report.table(headers, rows)}" for title, headers, rows in titled if rows]


def _head(sizes: Sizes, parts: list[str]) -> list[str]:
    """Machine and settings."""
    loads = ", ".join(f"{load.title} in {load.partitions} partitions" for load in sizes.loads)
    words = ", ".join(f"`{name}={value}`" for name, value in {**LOAD_SETTINGS, **BROKER_SETTINGS}.items())
    lines = [
        *machine.summary(),
        f"Load: {loads}, random letters, no keys, uncompressed, one partition per batch; written with {words}",
        *pipelines.shown(),
        *(mirror_maker.shown() if "mm2" in parts else []),
        *(franz_copier.shown() if "franz" in parts else []),
    ]
    return ["\n".join(f"- {line}" for line in lines)]


if __name__ == "__main__":
    main()
