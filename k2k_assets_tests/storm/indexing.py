"""Updates of the mapping index in a storm: each in its own process, like a run of Dagster, so it can be killed.

`python -m k2k_assets_tests.storm.indexing FILE` brings the index of a pipeline up to date, once.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from k2k_assets.core.errors import K2KError
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.mapping.index import IndexReader, IndexUnusable, update_index
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.spark.sessions import build_session
from k2k_assets_tests.support.copies.copying import mapping_records

_SECONDS = 180.0
Pair = tuple[str, int, int, int]


@contextmanager
def updating(path: Path) -> Iterator[subprocess.Popen[str]]:
    """An update under way; nothing of it is left after the block."""
    command = [sys.executable, "-m", "k2k_assets_tests.storm.indexing", str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL to an update and all that is below it."""
    with suppress(psutil.NoSuchProcess):
        for each in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
            with suppress(psutil.NoSuchProcess):
                each.kill()


def outcome(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code of an update, and the last that it said."""
    _, said = process.communicate(timeout=_SECONDS)
    return process.returncode, said.strip()[-1500:]


@contextmanager
def in_the_way(root: Path) -> Iterator[None]:
    """A file where the index has a directory: nothing can be written, as on a disk that is gone."""
    segments, aside = root / "segments", root / "aside"
    if not segments.is_dir() or aside.exists():
        yield
        return
    segments.rename(aside)
    segments.write_bytes(b"")
    try:
        yield
    finally:
        segments.unlink(missing_ok=True)
        aside.rename(segments)


def problems(pipeline: Pipeline, target: str) -> list[str]:
    """What the index says of each record against the mapping records themselves."""
    wanted = {
        (record.topic, record.partition, run.source_start + i, run.target_start + i)
        for record in mapping_records(pipeline, target)
        for part in record.targets
        for run in part.runs
        for i in range(run.count)
    }
    try:
        found = _pairs(IndexReader.open(pipeline))
    except IndexUnusable as error:
        return [f"index: {error}"]
    return [
        f"index: {len(pairs)} pairs {what}, such as {min(pairs)}"
        for what, pairs in (("missing", wanted - found), ("that nobody has copied", found - wanted))
        if pairs
    ]


def _pairs(index: IndexReader) -> set[Pair]:
    return {
        (source.topic, source.partition, start + i, target_start + i)
        for source in index.sources()
        for runs in index.partition_map(source).runs.values()
        for start, target_start, count in runs
        for i in range(count)
    }


def main() -> int:
    """Brings the index up to date; returns the exit code that a command would have."""
    logging.basicConfig(level=logging.WARNING)
    pipeline = load_pipeline([Path(sys.argv[1])])
    # One worker: beside a storm it is quicker than four.
    small = pipeline.spark.model_copy(update={"master": "local[1]"})
    spark = build_session(pipeline.model_copy(update={"spark": small}))
    try:
        with (
            Cluster("source", pipeline.client_properties("source", "admin")) as source,
            Cluster("target", pipeline.client_properties("target", "admin")) as target,
        ):
            update_index(spark, pipeline, source, target)
    except K2KError as error:
        print(f"Error: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
