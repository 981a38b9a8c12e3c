"""Measures where consumer groups end up on the target: records read again (R), skipped (S), untranslated, how fast.

    python -m benchmarks.offsets                 # everything; appends to RESULTS.md
    python -m benchmarks.offsets --quick         # small amounts, to try the benchmark itself; keeps nothing
    python -m benchmarks.offsets --only k2k,mm2  # some of: k2k, mm2, mm2-0, mm2-once; appends, too

Two topics, with and without transactions, are on the source before anything is copied, and groups stand at several
lags, others at the beginning. Then one tool after the other, never two at once, on the same topics and groups: it
copies all; some rounds of live writing follow, each until all is on the target, and after each the other groups are
committed on the source at their lags and watched on the target until nothing moves. One more round waits a minute
before it commits. R and S are counted by content, partition by partition: the records from the target position on
against those from the source position on.
"""

from __future__ import annotations

import argparse
import time

from benchmarks import machine, report
from benchmarks.lab import Lab
from benchmarks.offsets import results, tools
from benchmarks.offsets.plan import FULL, KINDS, PARTITIONS, QUICK, Plan
from benchmarks.offsets.rounds import Experiment, Sample
from benchmarks.offsets.tools import TOOLS
from benchmarks.offsets.traffic import ABORTED, BULK, LIVE, SIZE


def main() -> None:
    """Runs the benchmark."""
    options = _options()
    plan = QUICK if options.quick else FULL
    chosen = [tool for tool in TOOLS if not options.only or tool.key in options.only]
    started = time.monotonic()
    head = _head(plan)
    report.say(head)
    samples: list[Sample] = []
    with Lab() as lab:
        report.progress("both brokers are up")
        with Experiment(lab, plan) as experiment:
            report.progress("the source is written")
            for tool in chosen:
                found = experiment.measure(tool)
                samples += found
                report.say(report.table(results.HEADERS, results.rows(found, {tool.key: tool.title})))
    titles = {tool.key: tool.title for tool in chosen}
    sections = [head, report.table(results.HEADERS, results.rows(samples, titles))]
    report.say("\n\n" + sections[-1])
    report.progress(f"done in {time.monotonic() - started:.0f} s")
    if plan.full:
        report.append(sections)
        report.progress(f"appended to {report.RESULTS.name}")
    else:
        report.progress("small amounts: nothing appended to the results")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.offsets", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small amounts, to try the benchmark itself")
    parser.add_argument("--only", type=_keys, help=f"tools, with commas: {','.join(tool.key for tool in TOOLS)}")
    return parser.parse_args()


def _keys(text: str) -> list[str]:
    unknown = sorted(set(text.split(",")) - {tool.key for tool in TOOLS})
    if unknown:
        raise argparse.ArgumentTypeError(f"no such tool: {', '.join(unknown)}")
    return text.split(",")


def _head(plan: Plan) -> str:
    """What is measured, machine and settings."""
    lines = [
        *machine.summary(),
        f"Source: topics {' and '.join(kind.topic for kind in KINDS)}, {PARTITIONS} partitions each, {plan.records:,} "
        f"records of {SIZE} B in each partition before; transactions of {BULK[0]} to {BULK[1]} records a partition "
        f"then, of {LIVE[0]} to {LIVE[1]} in the rounds, one in {ABORTED + 1} aborted",
        f"{plan.rounds} rounds of {plan.more[0]:,} to {plan.more[1]:,} more records a partition at {plan.rate} a "
        f"second, and one with a pause of {plan.idle_seconds:g} s before its commits; groups have no members; a "
        f"position is final when nothing has moved for {plan.still_seconds:g} s",
        *tools.shown(),
    ]
    text = (
        "Cells: mean / median / largest over group-partitions. R: records read again; S: records skipped, in how many; "
        "s to converge: seconds from the commits on the source to the last change on the target; not moved: commits "
        "that changed nothing there. Groups committed before a tool's start are others than those of the rounds, which "
        "stand at the beginning until then."
    )
    title = "### Positions of consumer groups on the target"
    return "\n\n".join([title, text, "\n".join(f"- {line}" for line in lines)])


if __name__ == "__main__":
    main()
