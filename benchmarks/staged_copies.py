"""Measures whole copies with stages that change records: CPU of driver, JVM, workers and their functions a record.

    python -m benchmarks.staged_copies                     # some ten minutes, on a quiet machine
    python -m benchmarks.staged_copies --append            # the same, appended to RESULTS.md
    python -m benchmarks.staged_copies --records 500000 --repeat 1

Values begin with the id of a schema of the source's registry, and both registries are real. For rules that read fields
of values these are JSON of the same size. The kinds of copies take turns, so that what changes on the machine meets all
of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import ExitStack
from statistics import median
from typing import Any

from benchmarks import machine, report
from benchmarks.copying import Copied, copy
from benchmarks.driver_process import DriverProcess
from benchmarks.lab import Lab
from benchmarks.pipelines import BATCHES, LARGE, RECORDS, Settings
from benchmarks.sampling import require_proc
from benchmarks.sizes import FULL, Load
from k2k_assets.registry.client import ConfluentRegistry
from k2k_assets.registry.framing import prefix_of
from k2k_assets.registry.schemas import Schema
from k2k_assets.sandbox.registry import SandboxRegistry

HEADERS = ["stage", "form", "us a record", "least to most", "more than without", "records/s"]
_TOPIC, _SIZE = "bench-staged", 100
_MODULE = "bench_function"
_CODE = '''
import pyarrow as pa


def all_of_them(records: pa.RecordBatch) -> pa.RecordBatch:
    """A function for `transform`."""
    return records
'''


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.staged_copies", description=__doc__)
    parser.add_argument("--append", action="store_true", help="append to RESULTS.md")
    parser.add_argument("--records", type=int, default=2_000_000, help="records of 100 B in a copy")
    parser.add_argument("--repeat", type=int, default=3, help="how many copies of each kind")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the stages whose name has this, and none")
    options = parser.parse_args()
    require_proc()
    head = machine.listed()
    with ExitStack() as stack:
        lab = stack.enter_context(Lab())
        urls = _registries(lab, stack)
        load = Load(_TOPIC, _SIZE, options.records, prefix=prefix_of(_schema_id(urls[0])))
        of_json = json_load(options.records)
        (lab.folder / f"{_MODULE}.py").write_text(_CODE)
        driver = stack.enter_context(DriverProcess(lab.folder / "driver.log"))
        for each in (FULL.warm_up, load, of_json):
            lab.ensure_loaded(each)
        copy(lab, driver, FULL.warm_up, Settings(exactly_once=True))
        runs: dict[tuple[str, str], list[Copied]] = {}
        for turn in range(options.repeat):
            for what, sections in kinds(lab, *urls).items():
                if options.only not in what and sections:
                    continue
                for form in (RECORDS, BATCHES):
                    settings = Settings(exactly_once=True, batch_size=LARGE, sections=sections, form=form)
                    copied = copy(lab, driver, of_json if what in OF_JSON else load, settings)
                    runs.setdefault((what, form), []).append(copied)
            report.progress(f"turn {turn + 1}: " + ", ".join(f"{_cost(each[-1]):.2f}" for each in runs.values()))
    how = (
        f"{load.title} in {load.partitions} partitions, exactly once, batchSize {LARGE:,}; CPU of driver, JVM, workers "
        f"and processes for functions; medians of {options.repeat}, in turns"
    )
    text = [f"### Whole copies with stages\n\n{how}\n\n{head}", report.table(HEADERS, _rows(runs))]
    report.publish(text, options.append)


OF_JSON = {"filter by a field of the value: all stay", "mask a field of the value"}
"""Kinds of copies whose values are JSON."""


def json_load(records: int) -> Load:
    """Values that are JSON, with two fields and a long one."""
    head = b'{"n":0,"email":"a@example.org","rest":"'
    return Load(f"{_TOPIC}-json", _SIZE, records, prefix=head, suffix=b'"}')


def kinds(lab: Lab, source: str, target: str) -> dict[str, Mapping[str, Any]]:
    """What is measured: the sections of the file that are more than in a copy without stages."""
    mapping = {
        "features": {"schemaMapping": "enabled"},
        "source": {"registry": {"config": {"schema.registry.url": source}}},
        "target": {"registry": {"config": {"schema.registry.url": target}}},
        "schemaMapping": {"topics": [{"pattern": ".*", "key": "disabled", "value": "enabled"}]},
    }
    return {
        "none": {},
        "schema ids of values": mapping,
        "tracing headers: all four": {"features": {"tracingHeaders": "enabled"}},
        "both directions: all are marked, no echo": {"features": {"bidirectionalReplication": "enabled"}},
        "filter by a field of the value: all stay": _rule(filter={"value": "n", "equals": 0}),
        "mask a field of the value": _rule(mask=[{"value": "email", "with": "***"}]),
        "filter by a header that no record has: all stay": _rule(filter={"header": "n", "exists": False}),
        "a function that returns what it was given": _rule(python=f"{_MODULE}:all_of_them"),
    }


def _rule(**rule: object) -> dict[str, Any]:
    return {"transform": [{"pattern": ".*", **rule}]}


def _registries(lab: Lab, stack: ExitStack) -> tuple[str, str]:
    """Two registries whose ids differ; returns their addresses."""
    source = SandboxRegistry("source", lab.folder / "source-registry")
    target = SandboxRegistry("target", lab.folder / "target-registry", first_id=100)
    for registry in (source, target):
        stack.callback(registry.stop)
        registry.start()
    return source.url, target.url


def _schema_id(url: str) -> int:
    return ConfluentRegistry("source", {"url": url}, {}).register(f"{_TOPIC}-value", Schema("AVRO", '"bytes"', ()))


def _rows(runs: Mapping[tuple[str, str], list[Copied]]) -> list[list[str]]:
    rows = []
    for (what, form), copies in runs.items():
        without = median(map(_cost, runs["none", form]))
        costs = sorted(map(_cost, copies))
        speed = median(each.per_second for each in copies)
        cost = median(costs)
        span = f"{costs[0]:.2f} to {costs[-1]:.2f}"
        rows.append([what, form, f"{cost:.2f}", span, f"{cost - without:+.2f}", f"{speed:,.0f}"])
    return rows


def _cost(run: Copied) -> float:
    return run.cost("driver", "JVM", "workers")


if __name__ == "__main__":
    main()
