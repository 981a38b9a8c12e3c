"""`python -m k2k_assets_tests.storm`: a storm from the command line; ends with 1 if anything was wrong."""

from __future__ import annotations

import random
import sys
from typing import get_args

import click

from k2k_assets_tests.storm.faults import FAULTS
from k2k_assets_tests.storm.forms import Form
from k2k_assets_tests.storm.instances import Engine
from k2k_assets_tests.storm.plan import Plan
from k2k_assets_tests.storm.storm import storm


@click.command()
@click.option("--seconds", default=300.0, show_default=True, help="How long faults strike, in all.")
@click.option("--seed", type=int, help="Of all choices; drawn and told if absent.")
@click.option("--mode", type=click.Choice(["exactly-once", "at-least-once"]), default="exactly-once", show_default=True)
@click.option("--engine", type=click.Choice(["spark", "processes", "dagster"]), default="spark", show_default=True)
@click.option(
    "--form", type=click.Choice(get_args(Form)), default="batches", show_default=True, help="`transport.form`."
)
@click.option("--round", "round_seconds", default=120.0, show_default=True, help="Seconds between two comparisons.")
@click.option("--pause", default=3.0, show_default=True, help="Mean seconds between two faults.")
@click.option("--stages", is_flag=True, help="With stages that change records.")
@click.option("--both-ways", is_flag=True, help="With a second pipeline that copies back, and stages.")
@click.option("--only", multiple=True, type=click.Choice([fault.name for fault in FAULTS]), help="Only these faults.")
def main(
    seconds: float,
    seed: int | None,
    mode: str,
    engine: Engine,
    form: Form,
    round_seconds: float,
    pause: float,
    stages: bool,
    both_ways: bool,
    only: tuple[str, ...],
) -> None:
    """Faults at random over two real brokers and real processes; then every record is compared."""
    if form == "mixed" and engine == "dagster":
        raise click.UsageError("under Dagster all instances have one pipeline file, and so one form")
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    click.echo(f"seed {seed}")
    report = storm(
        Plan(
            seconds=seconds,
            seed=seed,
            exactly_once=mode == "exactly-once",
            engine=engine,
            form=form,
            round_seconds=round_seconds,
            pause=pause,
            only=only,
            stages=stages,
            both_ways=both_ways,
            aloud=True,
        )
    )
    click.echo(report.words())
    sys.exit(1 if report.problems else 0)


if __name__ == "__main__":
    main()
