"""Measures the mapping index: its size, a look-up, and its extension by an hour of mapping records.

    python -m benchmarks.index              # thirty days, ten partitions, a transaction a second: 26 million runs
    python -m benchmarks.index --days 1     # a smaller one, to try the benchmark itself
    python -m benchmarks.index --append     # the same, appended to RESULTS.md
    python -m benchmarks.index --build      # all of it as mapping records in a topic, read by one update of the job

The days before are written as the updates of each hour would have left them (the policy of `compaction` says which
segments), by the functions that the Spark tasks run. The hours after are real mapping records in a real topic.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from time import perf_counter

import numpy as np
from pyspark.sql import SparkSession

from benchmarks import machine, pipelines, report
from benchmarks.index_history import (
    HOUR,
    PARTITIONS,
    TOPIC,
    History,
    hours_before,
    write_all_records,
    write_index,
    write_records,
)
from benchmarks.lab import Lab
from k2k_assets.control.control_topics import ensure_control_topics
from k2k_assets.mapping.algebra.translate import TranslationState, translate
from k2k_assets.mapping.index import IndexReader, MappingIndex, update_index
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.spark.sessions import build_session

LOOKUPS = 200
# The largest merge falls into the middle of them.
EXTENSIONS = 12
GOALS = {"MB on disk": 200, "look-up ms": 50, "extension s": 10}


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.index", description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    parser.add_argument("--build", action="store_true", help="build the whole index by the job, from a topic")
    options = parser.parse_args()
    with Lab() as lab:
        sections = (
            build(lab, options.days * 24) if options.build else measure(lab, hours_before(options.days, EXTENSIONS))
        )
    report.publish(sections, options.append)


def build(lab: Lab, hours: int) -> list[str]:
    """The sections of results of a build in one go."""
    pipeline = bench_pipeline(lab)
    history = History(hours * HOUR + 1)
    wanted = hours * HOUR * PARTITIONS
    report.progress(f"writing {wanted:,} mapping records")
    write_all_records(lab, pipeline, history, hours)
    report.progress("building the index")
    spark = build_session(pipeline)
    started = perf_counter()
    manifest = update_index(spark, pipeline, lab.source, lab.target).manifest
    took = perf_counter() - started
    if (manifest.records_read, manifest.runs) != (wanted, wanted):
        raise AssertionError(f"{manifest.records_read} records and {manifest.runs} runs, and should be {wanted}")
    size = _bytes(Path(pipeline.index.path or ""))
    report.progress(f"{took:.0f} s, {size / 1e6:.0f} MB; looking up")
    cold, warm = look_up(pipeline, history, hours)
    rows = [
        ["mapping records, and runs", f"{wanted:,}", ""],
        ["build in one go, s", f"{took:.0f}", ""],
        ["mapping records a second", f"{wanted / took:,.0f}", ""],
        ["MB on disk", f"{size / 1e6:.1f}", f"{GOALS['MB on disk']}"],
        ["open the index and look up, ms, max", f"{max(cold) * 1e3:.1f}", f"{GOALS['look-up ms']}"],
        ["look up in an open one, ms, p99", f"{np.quantile(warm, 0.99) * 1e3:.1f}", f"{GOALS['look-up ms']}"],
        ["segments", f"{len(manifest.segments)}", ""],
    ]
    return _sections(f"built by the job from {hours / 24:g} days of a transaction a second", rows)


def bench_pipeline(lab: Lab) -> Pipeline:
    """A pipeline whose control topics are there, with an index in the lab's folder."""
    path = pipelines.write_pipeline(lab, "index-bench", TOPIC, pipelines.Settings(exactly_once=True))
    loaded = load_pipeline(path)
    root = lab.folder / "index"
    pipeline = loaded.model_copy(update={"index": loaded.index.model_copy(update={"path": str(root)})})
    ensure_control_topics(pipeline, lab.target)
    return pipeline


def _sections(what: str, rows: list[list[str]]) -> list[str]:
    words = machine.listed()
    title = f"### Mapping index: {what} on {PARTITIONS} partitions"
    return [f"{title}\n\n{words}", report.table(["what", "measured", "goal: below"], rows)]


def measure(lab: Lab, hours: int) -> list[str]:
    """The sections of results."""
    pipeline = bench_pipeline(lab)
    root = Path(pipeline.index.path or "")
    history = History((hours + EXTENSIONS + 1) * HOUR + 1)
    report.progress(f"writing {hours} hours of {PARTITIONS} partitions")
    write_index(lab, pipeline, history, hours)
    size = _bytes(root)
    index = MappingIndex.open(pipeline)
    report.progress(f"{index.manifest.runs:,} runs, {size / 1e6:.0f} MB; looking up")
    cold, warm = look_up(pipeline, history, hours)
    report.progress("extending by an hour at a time")
    spark = build_session(pipeline)
    took = [extend(lab, pipeline, spark, history, hours + hour) for hour in range(EXTENSIONS + 1)]
    last = MappingIndex.open(pipeline).manifest
    largest = max((written, seconds) for seconds, written in took[1:])
    rows = [
        ["runs", f"{index.manifest.runs:,}", ""],
        ["MB on disk", f"{size / 1e6:.1f}", f"{GOALS['MB on disk']}"],
        ["bytes per run", f"{size / index.manifest.runs:.2f}", ""],
        ["open the index and look up, ms, median", f"{statistics.median(cold) * 1e3:.1f}", ""],
        ["open the index and look up, ms, max", f"{max(cold) * 1e3:.1f}", f"{GOALS['look-up ms']}"],
        ["look up in an open one, ms, median", f"{statistics.median(warm) * 1e3:.1f}", ""],
        ["look up in an open one, ms, p99", f"{np.quantile(warm, 0.99) * 1e3:.1f}", f"{GOALS['look-up ms']}"],
        ["extend by an hour, s, first in a session", f"{took[0][0]:.1f}", ""],
        ["extend by an hour, s, median", f"{statistics.median(t for t, _ in took[1:]):.1f}", ""],
        ["extend by an hour, s, max", f"{max(t for t, _ in took[1:]):.1f}", f"{GOALS['extension s']}"],
        [f"extend by an hour and merge {largest[0]:,} runs, s", f"{largest[1]:.1f}", f"{GOALS['extension s']}"],
        ["MB on disk then, with the version before", f"{_bytes(root) / 1e6:.1f}", f"{GOALS['MB on disk']}"],
        ["segments before and after", f"{len(index.manifest.segments)}, {len(last.segments)}", ""],
    ]
    return _sections(f"{hours / 24:g} days of a transaction a second", rows)


def look_up(pipeline: Pipeline, history: History, hours: int) -> tuple[list[float], list[float]]:
    """Seconds of single look-ups of random positions: with the index opened anew for each, and in an open one."""
    draw = np.random.default_rng(0)
    reader = IndexReader.open(pipeline)
    sources = reader.sources()
    ends = {source: history.runs(source.partition).source_starts[hours * HOUR] for source in sources}
    cold, warm = list[float](), list[float]()
    for number in range(2 * LOOKUPS):
        source = sources[draw.integers(len(sources))]
        position = int(draw.integers(ends[source]))
        started = perf_counter()
        used = reader if number % 2 else IndexReader.open(pipeline)
        found = used.partition_map(source, position, position)
        (target,) = found.runs
        answer = translate(found, target, np.array([position]))
        (warm if number % 2 else cold).append(perf_counter() - started)
        if answer.states[0] != TranslationState.EXACT:
            raise AssertionError(f"{source} at {position}: {answer}")
    return cold, warm


def extend(lab: Lab, pipeline: Pipeline, spark: SparkSession, history: History, hour: int) -> tuple[float, int]:
    """Writes an hour of mapping records and updates the index: seconds of the update, runs that it wrote."""
    write_records(lab, pipeline, history, hour)
    before = {segment.name for segment in MappingIndex.open(pipeline).manifest.segments}
    started = perf_counter()
    manifest = update_index(spark, pipeline, lab.source, lab.target).manifest
    seconds = perf_counter() - started
    written = sum(segment.runs for segment in manifest.segments if segment.name not in before)
    wanted = (hour + 1) * HOUR * PARTITIONS
    if manifest.records_read != wanted:
        raise AssertionError(f"{manifest.records_read} records are in the index, and should be {wanted}")
    report.progress(f"hour {hour}: {seconds:.2f} s, {len(manifest.segments)} segments, {written:,} runs written")
    return seconds, written


def _bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
