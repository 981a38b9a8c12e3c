"""The source topics as observable assets: Dagster does not materialize them, but observes their ends."""

# Without `from __future__ import annotations`: Dagster wants the parameters' classes, not their names.

from collections.abc import Iterator

import dagster as dg

from k2k_assets.core.words import plural
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.data_versions import version_of
from k2k_assets.orchestration.assets.shown import ShownTopic
from k2k_assets.orchestration.assets.topics.topic_report import source_metadata
from k2k_assets.orchestration.failures import failures_as_messages
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.runs.interruption import interruptible
from k2k_assets.pipeline import Pipeline


def source_assets(pipeline: Pipeline, names: AssetNames, topics: list[ShownTopic]) -> list[dg.AssetsDefinition]:
    """The source topics, in as few ops as possible.

    Dagster compares a copy's materialization with the observed data version of its source, which needs an observable
    source.
    """
    return [_observable(pipeline, names, some, number) for number, some in enumerate(_apart(names, topics))]


def _apart(names: AssetNames, topics: list[ShownTopic]) -> list[list[ShownTopic]]:
    """Separates topics with equal output names: Dagster names an output after its key, with `_` for `.` and `-`."""
    ops: list[dict[str, ShownTopic]] = []
    for topic in topics:
        output = names.source_key(topic.name).to_python_identifier()
        op = next((op for op in ops if output not in op), None)
        if op is None:
            ops.append(op := {})
        op[output] = topic
    return [list(op.values()) for op in ops]


def _observable(pipeline: Pipeline, names: AssetNames, topics: list[ShownTopic], number: int) -> dg.AssetsDefinition:
    servers = pipeline.client_properties("source", "admin").get("bootstrap.servers", "?")
    by_key = {names.source_key(topic.name): topic.name for topic in topics}
    specs = [
        dg.AssetSpec(
            names.source_key(topic.name),
            group_name=names.source_group,
            description=f"Topic `{topic.name}` of the source cluster at {servers}; it is only read.",
            kinds={"kafka"},
            metadata={} if topic.partitions is None else {keys.PARTITIONS: plural(topic.partitions, "partition")},
        )
        for topic in topics
    ]

    name = names.op("sources", number + 1)

    @dg.multi_observable_source_asset(name=name, specs=specs, can_subset=True)  # type: ignore[untyped-decorator]
    @interruptible
    def sources(context: dg.AssetExecutionContext) -> Iterator[dg.ObserveResult]:
        selected = {by_key[key]: key for key in context.selected_asset_keys}
        with failures_as_messages(), both_clusters(pipeline) as (source, _):
            there = sorted(selected.keys() & source.topics().keys())
            ends = source.led_offsets(source.partitions_of(there), pipeline.readable_end).offsets
            # After the ends, as the sensor does: of a topic that is created anew in between they are no version at all.
            described = source.describe_async(there, partly=True)()
        for topic in there:
            of_topic = {tp.partition: end for tp, end in ends.items() if tp.topic == topic}
            topic_id = described[topic].topic_id if topic in described else ""
            yield dg.ObserveResult(
                asset_key=selected[topic],
                data_version=dg.DataVersion(version_of(of_topic.items(), topic_id)),
                metadata=source_metadata(of_topic),
            )

    definition: dg.AssetsDefinition = sources
    return definition
