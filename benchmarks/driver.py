"""The process that is measured: runs pipelines through the real thing, Spark and all, as it is told on its input.

`python -m benchmarks.driver`; one JSON object a line in, one out. It ends when its input closes. Its counterpart is
`driver_process.py`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from queue import SimpleQueue
from typing import Any

from k2k_assets.core.stops.reason import render_topic
from k2k_assets.pipeline import load_pipeline
from k2k_assets.replication.extent import Continuous, UntilCaughtUp
from k2k_assets.spark.coming_spark import ComingSpark
from k2k_assets.telemetry.exporting import exporting

Job = dict[str, Any]


def main() -> None:
    """Runs one job after the other."""
    # Whatever else writes to standard output (the JVM does) goes to standard error.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    jobs: SimpleQueue[Job | None] = SimpleQueue()
    stop = threading.Event()
    threading.Thread(target=_listen, args=(jobs, stop), daemon=True).start()
    while job := jobs.get():
        print(json.dumps(_run(job, stop)), file=answers)
        stop.clear()


def _listen(jobs: SimpleQueue[Job | None], stop: threading.Event) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if message == "stop":
            stop.set()
        else:
            jobs.put(message)
    stop.set()
    jobs.put(None)


def _run(job: Job, stop: threading.Event) -> dict[str, Any]:
    try:
        pipeline = load_pipeline([job["pipeline"]])
        extent = Continuous() if job["continuous"] else UntilCaughtUp()
        spark = ComingSpark(pipeline)
        try:
            if environment := job.get("telemetry"):
                with exporting(pipeline, environment) as exported:
                    outcome = spark.replicate(extent, stop=stop, listener=exported.listener, reports=exported.reports)
            else:
                outcome = spark.replicate(extent, stop=stop)
        finally:
            spark.await_start()  # it stays: the next job uses the same Java process
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    if outcome.stopped:
        told = "; ".join(render_topic(topic, stops) for topic, stops in outcome.stopped.items())
        return {"error": f"stopped: {told}"}
    return {"records": sum(topic.records for topic in outcome.topics.values()), "seconds": outcome.seconds}


if __name__ == "__main__":
    main()
