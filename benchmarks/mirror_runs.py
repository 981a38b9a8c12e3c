"""Copies the loads with MirrorMaker 2, and measures the same as of this project."""

from __future__ import annotations

from itertools import groupby, product

from benchmarks import latency
from benchmarks.copying import HEADERS, row
from benchmarks.lab import Lab, create_topic, delete_topics
from benchmarks.mirror_maker import MODES, QUICK, MirrorMaker, Mode, tuned
from benchmarks.passes import markers, measure_pass, warm_up
from benchmarks.report import progress, say, table
from benchmarks.sizes import Load, Sizes


def measure_copies(lab: Lab, sizes: Sizes) -> list[list[str]]:
    """Rows of the table of copies."""
    rows = []
    for mode in MODES[: sizes.mirror_modes]:
        for codec, loads in groupby(sizes.compared, lambda load: load.codec):
            rows += _copies(lab, sizes, mode.compressing(codec), list(loads))
    return rows


def measure_latency(lab: Lab, sizes: Sizes) -> list[list[str]]:
    """Rows of the table of latencies."""
    rows = []
    for rate, mode in product(latency.RATES, MODES[: min(2, sizes.mirror_modes)]):
        create_topic(lab.source, latency.TOPIC, rate.partitions)
        with MirrorMaker(lab, f"mirror-latency-{mode.alias}", mode, [latency.TOPIC], QUICK) as mirror:
            copy = mirror.prefix + latency.TOPIC
            seen = latency.latencies(lab, copy, rate, sizes.seconds, mirror.ensure_running)
        delete_topics(lab.target, [copy])
        delete_topics(lab.source, [latency.TOPIC])
        rows.append(latency.row("MirrorMaker 2", mode.title, rate, seen))
        say(table(latency.HEADERS, rows[-1:]).splitlines()[-1])
    return rows


def _copies(lab: Lab, sizes: Sizes, mode: Mode, loads: list[Load]) -> list[list[str]]:
    """Rows of loads of one compression, copied by one process."""
    rows = []
    for load in loads:
        lab.ensure_loaded(load)
    topics = [load.topic for load in loads]
    with MirrorMaker(lab, f"mirror-{mode.alias}", mode, topics, tuned(loads[0].codec)) as mirror:
        warm_up(lab, mirror, loads, mode.title)
        for load in loads:
            runs = [measure_pass(lab, load, mirror) for _ in range(sizes.repeat)]
            rows.append(row("MirrorMaker 2", load, mode.title, runs, markers(lab, load, mirror)))
            say(table(HEADERS, rows[-1:]).splitlines()[-1])
        progress(f"settings in force: {mirror.settings_in_force()}")
    delete_topics(lab.target, [mirror.prefix + topic for topic in topics])
    return rows
