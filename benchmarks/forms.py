"""Copies loads by records and by whole batches, in turns: what a record costs exactly once, with mapping."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.copying import HEADERS, copy, note, row
from benchmarks.driver_process import DriverProcess
from benchmarks.lab import Lab
from benchmarks.pipelines import BATCHES, DEFAULT, LARGE, RECORDS, Settings
from benchmarks.report import progress, say, table
from benchmarks.sizes import Load, Sizes

FORMS = (RECORDS, BATCHES)


def measure(lab: Lab, sizes: Sizes) -> list[list[str]]:
    """Rows of the table of copies."""
    rows = []
    with DriverProcess(lab.folder / "forms-driver.log") as driver:
        for load in (sizes.warm_up, *sizes.loads, *sizes.shaped):
            lab.ensure_loaded(load)
        for form in FORMS:
            copy(lab, driver, sizes.warm_up, Settings(exactly_once=True, form=form))
        progress("warm")
        for load, batch_size in _plan(sizes):
            settings = {form: _settings(load, batch_size, form) for form in FORMS}
            turns = [{form: copy(lab, driver, load, settings[form]) for form in FORMS} for _ in range(sizes.repeat)]
            for form in FORMS:
                runs = [turn[form] for turn in turns]
                rows.append(row(f"k2k by {form}, batchSize {batch_size}", load, "exactly once", runs, note(runs)))
                say(table(HEADERS, rows[-1:]) if len(rows) == 1 else table(HEADERS, rows[-1:]).splitlines()[-1])
        for load in sizes.shaped:
            lab.remove(load)
    return rows


def _plan(sizes: Sizes) -> Iterator[tuple[Load, int]]:
    yield from ((load, LARGE) for load in (*sizes.loads, *sizes.shaped))
    yield from ((load, DEFAULT) for load in sizes.loads)


def _settings(load: Load, batch_size: int, form: str) -> Settings:
    return Settings(True, batch_size, form=form, codec=load.codec, keeps_headers=not load.with_headers)
