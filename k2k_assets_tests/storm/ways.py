"""The pipelines of a storm: one, or two that copy the same topics there and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.storm.environment import Environment
from k2k_assets_tests.storm.forms import forms_of
from k2k_assets_tests.storm.groups import ReadingGroups
from k2k_assets_tests.storm.journal import Journal
from k2k_assets_tests.storm.opposite import Opposite
from k2k_assets_tests.storm.plan import Plan
from k2k_assets_tests.storm.stages import Stages
from k2k_assets_tests.support.brokers.kafka import unique
from k2k_assets_tests.support.copies.numbered import NumberedWriter
from k2k_assets_tests.support.copies.pipelines import write_pipeline

PIPELINES = "pipelines"
GROUPS = 5
"""How many groups read on each side that is written."""
_TRANSACTION_MS = 3000
_GRACE = "2 seconds"


class Way(NamedTuple):
    """One pipeline of a storm.

    Attributes:
        environment: Its clusters and processes.
        stages: What it makes of records.
        groups: Those that read on its source.
    """

    environment: Environment
    stages: Stages
    groups: ReadingGroups


def ways_of(plan: Plan, directory: Path, sandbox: KafkaSandbox, stages: list[Stages], journal: Journal) -> list[Way]:
    """A pipeline for each of the stages; the second one copies back.

    Args:
        plan: The storm.
        directory: For the files.
        sandbox: The brokers.
        stages: Of each pipeline.
        journal: Is told what happens.
    """
    prefix, ways = unique("storm"), list[Way]()
    readers = [[f"{prefix}-reader-{side}{number}" for number in range(GROUPS)] for side, _ in enumerate(stages)]
    everywhere: object = [name for of_side in readers for name in of_side]
    if plan.engine == "dagster":  # where groups come and go
        everywhere = f"{prefix}-reader-.*"
    control = [unique("storm") for _ in stages]
    for side, (clusters, staged) in enumerate(zip((sandbox, Opposite(sandbox)), stages, strict=False)):
        # Each mapper sees the groups of both sides, and those that the other mapper moves.
        more: dict[str, Any] = {"groups": {"consumerGroups": everywhere, "pollInterval": "500 milliseconds"}}
        if plan.both_ways:
            more["bidirectional"] = {"mode": plan.marker, "reverse": _reverse(control[1 - side])}
        path = _pipeline_file(directory, clusters, plan, prefix, control[side], more, staged, side)
        seed = plan.seed + side
        writer = NumberedWriter(clusters.source_servers, [], seed, dress=staged.dress)
        groups = ReadingGroups(clusters.source_servers, readers[side], writer.places, seed)
        what = clusters, path, plan.engine, forms_of(plan.form), prefix, writer, journal, plan.lasting, staged, groups
        environment = Environment(*what, ways[0].environment if ways else None)
        ways.append(Way(environment, staged, groups))
    return ways


def _reverse(control: str) -> Mapping[str, str]:
    return {"mappingTopic": f"{control}-mappings", "commitTopic": f"{control}-commits"}


def _pipeline_file(
    directory: Path,
    sandbox: KafkaSandbox,
    plan: Plan,
    prefix: str,
    name: str,
    more: Mapping[str, Any],
    stages: Stages,
    number: int,
) -> Path:
    sections: dict[str, Any] = {
        "coordination": {
            "commit": {"topic": f"{name}-commits", "syncTimeout": "15 seconds", "batchSize": 50},
            "assignment": {"topic": f"{name}-claims", "graceWindow": _GRACE},
        },
        "offsetMapping": {"topic": f"{name}-mappings"},
        "target": {
            "kafka": {
                "common": {"bootstrap.servers": sandbox.target_servers},
                "producer": {"transaction.timeout.ms": _TRANSACTION_MS},
            }
        },
        "errorHandling": {
            "onCommitSyncTimeout": "ignore",
            "onControlMessageDeserializationError": "ignore",
            # Nobody writes to the target but the pipeline, marker or not: so its own mappings are enough for groups.
            **({} if plan.both_ways else {"onForeignWriter": "fail"}),
        },
        "spark": {"master": "local[4]", "config": {"spark.sql.shuffle.partitions": "2"}},
        "transport": {"form": forms_of(plan.form)[0]},
        "index": {"path": str(directory / f"index-{number}")},
        # Transactions stay open for long, so that faults meet them.
        "sync": {"minCommitInterval": "300 milliseconds", "metadataInterval": "2 seconds"},
        **more,
    }
    folder = directory / PIPELINES / (str(number) if number else "")
    folder.mkdir(parents=True)
    if plan.engine == "dagster":
        sections["sync"]["window"] = "60 seconds"
        sections["index"]["interval"] = "30 seconds"
    stages.write_beside(folder)
    features = {"exactlyOnce": "enabled" if plan.exactly_once else "disabled", "offsetMapping": "enabled"}
    return write_pipeline(
        folder,
        sandbox.source_servers,
        sandbox.target_servers,
        f"{prefix}.*",
        features={**features, "headerReplication": "enabled", **stages.features()},
        **stages.write_options(),
        **sections,
    )
