"""The pipeline: the whole file as one frozen model, with properties for the rest of the program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, PrivateAttr

from k2k_assets.core.digest import digest
from k2k_assets.pipeline.clients.client_properties import (
    ClientKind,
    ClusterRole,
    PropertyTranslation,
    transaction_timeout_ms,
    translate,
)
from k2k_assets.pipeline.clients.java_properties import Scalar
from k2k_assets.pipeline.pairs import Pair, joined_routing, joined_selection
from k2k_assets.pipeline.sections.added_headers import AddedHeaders
from k2k_assets.pipeline.sections.bidirectional import Bidirectional, Marker
from k2k_assets.pipeline.sections.coordination import Configuration, Coordination, OffsetMapping
from k2k_assets.pipeline.sections.error_handling import ErrorHandling
from k2k_assets.pipeline.sections.features import Features
from k2k_assets.pipeline.sections.groups import Groups
from k2k_assets.pipeline.sections.kafka import SourceSection, TargetSection
from k2k_assets.pipeline.sections.metrics import Metrics
from k2k_assets.pipeline.sections.own_sections import Checks, Index, Spark, Sync, TransportForm
from k2k_assets.pipeline.sections.routing import Routing
from k2k_assets.pipeline.sections.schema_mapping import FacetRule, RegistrySection, SchemaMapping
from k2k_assets.pipeline.sections.selection import TopicSelection
from k2k_assets.pipeline.sections.stages import Stages
from k2k_assets.pipeline.sections.start import Start
from k2k_assets.pipeline.sections.throttle import Throttle
from k2k_assets.pipeline.sections.topic_creation import TopicCreation
from k2k_assets.pipeline.sections.tracing import Tracing, tracing_headers
from k2k_assets.pipeline.sections.transform import TransformRule, folders_of, transform_text
from k2k_assets.pipeline.sections.values import Owner, Section

StartFrom = Literal["earliest", "latest", "none", "given"]
ReadableEnd = Literal["stable", "latest"]


class Pipeline(Section):
    """A pipeline file. `load_pipeline` makes it, and also checks rules between sections."""

    name: str = Field(min_length=1, description="Name of the pipeline (required).")
    source: SourceSection = Field(description="The cluster that is copied from (required).")
    target: TargetSection = Field(description="The cluster that is copied to (required).")
    replication: Stages = Field(
        description="The stages: `- source: ...`, then `- sink: ...` (required), in one pair or several. No topic is "
        "copied that two pairs select."
    )
    features: Features = Field(default_factory=Features, description="What the pipeline does beyond plain copying.")
    coordination: Coordination = Field(default_factory=Coordination, description="Progress and ownership.")
    offset_mapping: OffsetMapping = Field(
        default_factory=OffsetMapping, description="Where offset mappings are written."
    )
    groups: Groups = Field(default_factory=Groups, description="Consumer groups whose positions are translated.")
    topic_creation: TopicCreation = Field(default_factory=TopicCreation, description="Topics that are created.")
    configuration: Configuration = Field(default_factory=Configuration, description="Parallelism and waiting.")
    error_handling: ErrorHandling = Field(default_factory=ErrorHandling, description="What to do about faults.")
    tracing: Tracing = Field(default_factory=Tracing, description="Tracing headers (`features.tracingHeaders`).")
    schema_mapping: SchemaMapping = Field(
        default_factory=SchemaMapping,
        description="Which records have schema ids (`features.schemaMapping`).",
    )
    bidirectional: Bidirectional = Field(
        default_factory=Bidirectional,
        description="Pipelines in both directions (`features.bidirectionalReplication`).",
    )
    transform: tuple[TransformRule, ...] = Field(
        default=(),
        description="Rules by which records are left out or changed, one after the other: see "
        "[transform.md](transform.md). Our own.",
    )
    metrics: Metrics = Field(default_factory=Metrics, description="Names of what telemetry exports (`-t`).")
    spark: Spark = Field(default_factory=Spark, description="Where the copying runs. Our own.")
    sync: Sync = Field(default_factory=Sync, description="How long a run lasts. Our own.")
    throttle: Throttle = Field(
        default_factory=Throttle, description="How many bytes a second are copied at most. Our own."
    )
    transport: TransportForm = Field(
        default_factory=TransportForm, description="How records are brought to the target. Our own."
    )
    index: Index = Field(default_factory=Index, description="The index of offset mappings. Our own.")
    checks: Checks = Field(default_factory=Checks, description="The checks that run beside the copy. Our own.")
    owners: tuple[Owner, ...] = Field(
        default=(),
        description="Owners, which Dagster shows on each asset: email addresses, and teams such as `team:payments`. "
        "Our own.",
    )

    _warnings: tuple[str, ...] = PrivateAttr(default=())
    _infos: tuple[str, ...] = PrivateAttr(default=())
    _files: tuple[Path, ...] = PrivateAttr(default=())

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic's, but what was derived from the sections before is derived anew."""
        copied = super().model_copy(update=update, deep=deep)
        for name, value in vars(Pipeline).items():
            if isinstance(value, cached_property):
                copied.__dict__.pop(name, None)
        return copied

    @cached_property
    def group(self) -> str:
        """The name of the progress: the source consumer's `group.id`."""
        return str(self.translation("source", "consumer").values["group.id"])

    def start_of(self, topic: str) -> Start | None:
        """The `start` of a source topic, as the pair says that selects it."""
        if len(self.pairs) == 1:
            return self.pairs[0].selection.start
        return next((pair.selection.start for pair in self.pairs if pair.selection.matches(topic)), None)

    def start_time_of(self, topic: str) -> int | None:
        """The time in its `start`, in milliseconds since the epoch; None if it says something else."""
        start = self.start_of(topic)
        return start if isinstance(start, int) else None

    def start_from(self, topic: str) -> StartFrom:
        """Where a partition of a topic without progress starts: `start` if the file has it, else `auto.offset.reset`.

        `given` means a time, or offsets in the file.
        """
        start = self.start_of(topic)
        if start is not None:
            return start if isinstance(start, str) else "given"
        given = self.translation("source", "consumer").values.get("auto.offset.reset", "earliest")
        return "latest" if given == "latest" else "none" if given == "error" else "earliest"

    @cached_property
    def readable_end(self) -> ReadableEnd:
        """How far the source can be read: to its last stable offset; with `read_uncommitted`, to its high watermark."""
        isolation = self.translation("source", "consumer").values.get("isolation.level", "read_committed")
        return "stable" if isolation == "read_committed" else "latest"

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs of stages: a source and its sink."""
        sources = [stage.source for stage in self.replication if stage.source]
        sinks = [stage.sink for stage in self.replication if stage.sink]
        return tuple(map(Pair, sources, sinks))

    @cached_property
    def selection(self) -> TopicSelection:
        """Which topics are copied, by all pairs."""
        return joined_selection([pair.selection for pair in self.pairs])

    @cached_property
    def routing(self) -> Routing:
        """Where records go: the pair that selects their topic decides."""
        return joined_routing(self.pairs)

    @cached_property
    def transaction_timeout(self) -> timedelta:
        """Time after which the target aborts a dead writer's transaction."""
        values = self.translation("target", "producer").values
        return timedelta(milliseconds=transaction_timeout_ms(values))

    @property
    def slots(self) -> int | None:
        """Number of slots that the file asks for; None: as many as Spark has cores for (`spark.slots: auto`)."""
        if self.configuration.partition_parallelism is not None:
            return self.configuration.partition_parallelism
        return None if self.spark.slots == "auto" else self.spark.slots

    @property
    def slots_key(self) -> str:
        """The key with the number of slots."""
        in_k2k = self.configuration.partition_parallelism is not None
        return "configuration.partitionParallelism" if in_k2k else "spark.slots"

    @property
    def files(self) -> tuple[Path, ...]:
        """Absolute paths of its files; empty for a pipeline in a section of another file."""
        return self._files

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each reason why keys have no effect or an older spelling; without secrets."""
        return self._warnings

    @property
    def infos(self) -> tuple[str, ...]:
        """One line for each key that has no effect and need not be changed."""
        return self._infos

    @cached_property
    def code_version(self) -> str:
        """A hash of all settings that decide which records are written, and where; the same on every machine.

        Credentials, addresses, timeouts and sizes are left out because they change no record.
        """
        producer = self.translation("target", "producer").values
        consumer = self.translation("source", "consumer").values
        flags = ("exactly_once", "header_replication", "keep_record_creation_timestamp", "offset_mapping")
        relevant = {
            "name": self.name,
            "group": self.group,
            "features": {flag: getattr(self.features, flag) for flag in flags},
            "source": self._sources(),
            "sink": self._sinks(),
            "partition": self._partitions(),
            "partitioner": producer["partitioner"],
            "isolation": consumer.get("isolation.level", "read_committed"),
        }
        if self.schema_rules:
            relevant["schemas"] = self.schema_rules
        if self.added_headers:
            relevant["added"] = self.added_headers
        if self.marker:
            relevant["marker"] = self.marker
        if self.transform:
            relevant["transform"] = self.transform_text
        text = json.dumps(relevant, sort_keys=True, separators=(",", ":"))
        return digest(text)

    def _sources(self) -> object:
        sources = [pair.selection.identity() for pair in self.pairs]
        return sources[0] if len(sources) == 1 else sources

    def _partitions(self) -> object:
        partitions = [pair.routing.partition for pair in self.pairs]
        return partitions[0] if len(set(partitions)) == 1 else partitions

    def _sinks(self) -> object:
        sinks = [pair.routing.topic.model_dump(mode="json") for pair in self.pairs]
        return sinks[0] if len(sinks) == 1 else sinks

    @cached_property
    def schema_rules(self) -> tuple[FacetRule, ...]:
        """Rules for the facets whose schema ids are mapped; empty where none are."""
        return self.schema_mapping.rules if self.features.schema_mapping else ()

    @cached_property
    def added_headers(self) -> AddedHeaders:
        """The headers that each copy gets behind those of its source record, in their order."""
        return tracing_headers(self.features.tracing_headers, self.tracing.headers, self.name)

    @cached_property
    def marker(self) -> Marker | None:
        """The header that marks copies, so that they are not copied back; None if the pipeline is not bidirectional."""
        if not self.features.bidirectional_replication:
            return None
        header, mode = self.bidirectional.headers.bidirectional, self.bidirectional.mode
        return Marker(header, mode, self.name if mode == "pipeline" else "")

    @cached_property
    def transform_text(self) -> str:
        """The rules by which records are left out or changed, as `transform.transform_text`; empty if there are none.

        Raises:
            Refused: The module of a function cannot be found.
        """
        return transform_text(self.transform, self.folders)

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders of its files, in which modules of users may lie."""
        return folders_of(self._files)

    @property
    def dead_letter_topics(self) -> tuple[str, ...]:
        """Topics on the target for records for which a rule fails, each once."""
        return tuple(dict.fromkeys(rule.dead_letters for rule in self.transform if rule.dead_letters))

    @property
    def shares_targets(self) -> bool:
        """Whether others write to its target topics as well, so that records between copies are no fault.

        The records written on the target lie there, if the pipeline is bidirectional.
        """
        return self.features.bidirectional_replication and self.error_handling.on_foreign_writer != "fail"

    def registry(self, cluster: ClusterRole) -> RegistrySection:
        """A cluster's schema registry; an empty one where the file has none."""
        section = self.source if cluster == "source" else self.target
        return section.registry or RegistrySection()

    def client_properties(self, cluster: ClusterRole, client: ClientKind) -> dict[str, Scalar]:
        """One client's properties under librdkafka's names, `common` included.

        Settings that a guarantee needs are only included if the file has them, and then they are right; the engine
        sets the others. A producer always has a `partitioner` (Java's murmur2 when the file has none).
        """
        return dict(self.translation(cluster, client).values)

    def translation(self, cluster: ClusterRole, client: ClientKind) -> PropertyTranslation:
        """One client's properties, with remarks from their translation."""
        return translate(cluster, client, self.sections(cluster, client), exactly_once=self.features.exactly_once)

    def sections(self, cluster: ClusterRole, client: ClientKind) -> list[tuple[str, Mapping[str, Scalar]]]:
        """Name and content of the sections with one client's properties; the last one wins."""
        kafka = self.source.kafka if cluster == "source" else self.target.kafka
        return [(f"{cluster}.kafka.{part}", getattr(kafka, part, {})) for part in ("common", client)]
