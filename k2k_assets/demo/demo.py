"""The demo's course: clusters, traffic, discovery, Dagster, summary. Everything it starts, it stops."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural
from k2k_assets.definitions import build_definitions
from k2k_assets.demo.decoded import Decoded, compare_decoded, schemas_at
from k2k_assets.demo.groups import GROUPS, consume_on_source, resume_on_target
from k2k_assets.demo.reading import read_values
from k2k_assets.demo.screen import Screen, Step
from k2k_assets.demo.summary import Shown, TopicRow, faults, summary
from k2k_assets.demo.workplace import discovered, workplace
from k2k_assets.discovery import Discovery
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.materialize import Loaded, Materialized, interrupted, load, materialize
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.readings import READINGS
from k2k_assets.sandbox.traffic import write_sample_traffic
from k2k_assets.spark.sessions import stop_active_session

if TYPE_CHECKING:
    from k2k_assets.orchestration.materialize import EventLogEntry


def run_demo(screen: Screen, registries: bool) -> bool:
    """Runs the demo from the first cluster to the last line of the summary.

    Args:
        screen: Where to show it.
        registries: With schema registries, and a topic whose values have schemas.

    Returns:
        Whether everything was copied, materialized and checked without a failure.

    Raises:
        K2KError: Something could not be started, or a cluster did not answer.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("k2k").setLevel(logging.INFO)
    what = "two Kafka clusters and two schema registries" if registries else "two Kafka clusters"
    starting = f"starting {what} (the first time: downloading them)"
    with workplace() as place, screen.step(starting) as step, KafkaSandbox(registries=registries) as sandbox:
        step.done(f"{what} run: source {sandbox.source_servers}, target {sandbox.target_servers}")
        step.next("writing sample traffic")
        urls = tuple(registry.url for registry in sandbox.registries or ())
        written = write_sample_traffic(sandbox.source_servers, registry=urls[0] if urls else None)
        step.done(f"{plural(sum(written.values()), 'record')} written to {plural(len(written), 'source topic')}")
        step.next("reading a part of it with two consumer groups")
        read = consume_on_source(sandbox.source_servers)
        step.done(f"{plural(sum(read.values()), 'record')} read on the source by {plural(len(read), 'consumer group')}")
        step.next("loading the definitions")
        pipeline = place.write_pipeline(sandbox)
        discovery = discovered(pipeline)
        loaded = load(build_definitions(place.pipelines), pipeline.name)
        step.done(f"Dagster has loaded {plural(len(loaded.assets), 'asset')} and {plural(loaded.checks, 'check')}")
        result = _materialize(loaded, step)
        rows = _rows(pipeline, discovery, result, loaded, written)
        step.next("letting the groups go on on the target")
        groups = resume_on_target(sandbox.source_servers, sandbox.target_servers, read, _states(loaded, result))
        resumed = sum(group.resumed for group in groups)
        step.done(f"{plural(resumed, 'record')} read on the target by {plural(len(groups), 'consumer group')}")
        decoded = _decoded(sandbox, step)
        step.next("stopping the clusters")
    shown = Shown(rows, groups, decoded, result)
    screen.line(f"\n{summary(shown, screen.console.width)}")
    return not faults(shown)


def _decoded(sandbox: KafkaSandbox, step: Step) -> Decoded | None:
    """How the topic with schemas is decoded on the target; None without registries."""
    if sandbox.registries is None:
        return None
    step.next(f"decoding {READINGS} on the target")
    source, target = (read_values(servers, READINGS) for servers in (sandbox.source_servers, sandbox.target_servers))
    before, after = (schemas_at(registry.url) for registry in sandbox.registries)
    decoded = compare_decoded(READINGS, source, target, (before, after))
    step.done(f"{plural(decoded.values, 'value')} of {READINGS} decoded on the target with its own schema registry")
    return decoded


def _states(loaded: Loaded, result: Materialized) -> dict[str, str]:
    """What is said of each group's positions, such as "3 exact"."""
    found = {group.name: loaded.names.consumer_group_key(group.name).to_user_string() for group in GROUPS}
    return {name: str(result.metadata[key][keys.STATE]) for name, key in found.items() if key in result.metadata}


def _materialize(loaded: Loaded, step: Step) -> Materialized:
    """Runs the job and tells of each step of it as it ends."""
    step.next("starting the Dagster run")
    events = _Events(loaded, step)
    try:
        return materialize(loaded, events.listen)
    finally:
        stop_active_session()


class _Events:
    """Turns the events of the run into lines."""

    def __init__(self, loaded: Loaded, step: Step) -> None:
        self._step = step
        names = loaded.names
        self._checks_on_mappings = names.mapping_checks_op
        self._words = {
            names.op("topics"): "copying topics with one Spark job",
            names.op("commit_log"): "reading the commit log",
            names.op("offset_mappings"): "building the index of offset mappings with PySpark",
            names.mapping_checks_op: "checking the offset mappings",
            names.op("consumer_groups"): "moving the consumer groups",
            names.op("group_positions"): "looking where the consumer groups belong",
        }
        self._assets: list[Mapping[str, object]] = []
        self._named: list[str] = []

    def listen(self, entry: EventLogEntry) -> None:
        event = entry.dagster_event
        if event is None:
            self._step.detail(entry.user_message.splitlines()[0] if entry.user_message else "")
        elif event.is_step_start:
            self._named, self._assets = [], []
            self._step.next(self._words.get(event.step_key or "", event.step_key or ""))
        elif event.is_step_materialization and event.asset_key:
            self._named.append(event.asset_key.to_user_string())
            metadata = event.step_materialization_data.materialization.metadata
            self._assets.append({key: value.value for key, value in metadata.items()})
        elif event.event_type_value == "ASSET_CHECK_EVALUATION":
            self._checked(event.step_key, f"check {event.asset_check_evaluation_data.check_name}")
        elif event.is_step_success and (told := self._told()):
            self._step.done(told)
        elif event.is_step_failure and not interrupted(event):
            self._step.done(f"FAILED: {self._words.get(event.step_key or '', event.step_key or '')}")

    def _checked(self, step: str | None, check: str) -> None:
        """Those on the mappings take seconds each, and are told one by one."""
        if step == self._checks_on_mappings:
            self._step.done(check)
        else:
            self._named.append(check)

    def _told(self) -> str:
        records = [int(str(m[keys.RECORDS])) for m in self._assets if keys.RECORDS in m]
        if records and len(self._named) > 1:
            return f"{plural(len(self._named), 'topic')} copied, {plural(sum(records), 'record')}"
        groups = sum(keys.STATE in metadata for metadata in self._assets)
        if groups:
            return f"{plural(groups, 'consumer group')} moved, and checked by content"
        return ", ".join(dict.fromkeys(self._named))


def _rows(
    pipeline: Pipeline, discovery: Discovery, result: Materialized, loaded: Loaded, written: Mapping[str, int]
) -> list[TopicRow]:
    """One row a topic: numbers from its materialization, end offsets from the clusters themselves."""
    rows = []
    with (
        Cluster("source", pipeline.client_properties("source", "admin")) as source,
        Cluster("target", pipeline.client_properties("target", "admin")) as target,
    ):
        for name, topic in discovery.topics.items():
            metadata = result.metadata.get(loaded.names.topic_key(name).to_user_string())
            if metadata is None or topic.target is None:
                continue
            rows.append(
                TopicRow(
                    topic=name,
                    written=written[name],
                    records=int(str(metadata[keys.RECORDS])),
                    bytes=int(str(metadata[keys.BYTES])),
                    source_end=_end(source, name, topic.partitions),
                    target_end=_end(target, topic.target, topic.partitions),
                    runs=int(str(metadata[keys.OFFSET_RANGES])),
                    seconds=float(str(metadata[keys.SECONDS])),
                )
            )
    return rows


def _end(cluster: Cluster, topic: str, partitions: int) -> int:
    return sum(cluster.offsets([TopicPartition(topic, p) for p in range(partitions)], "latest").values())
