"""Reads messages of the mapping topic as records, by group and source partition."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from k2k_assets.control.foreign_records import foreign_hint
from k2k_assets.control.mapping_records import MappingKey, MappingRecord, are_concerned, parse_key
from k2k_assets.core.any_group import ANY_GROUP
from k2k_assets.core.errors import Refused
from k2k_assets.kafka.messages import Message
from k2k_assets.mapping.algebra.in_memory_mapping import Placed, Records
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.live.noted_ways import NotedWays
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.mapping")


class UnreadableMapping(Refused):
    """A mapping record cannot be read, and must not be passed over."""


class RecordsRead(NamedTuple):
    """Some records, and those that were passed over behind them.

    Attributes:
        records: The records.
        passed_over: Keys of the records that cannot be read, which lie behind the others of the same key; None: of one
            the key cannot be read either.
    """

    records: Records
    passed_over: Collection[MappingKey | None]


class MappingMessages:
    """Reads the mapping records that concern one pipeline.

    Args:
        pipeline: Names group and policy.
        source_cluster: Cluster id; records of other clusters are left out.
        others: Whether records of other pipelines of the same source cluster are kept.

    Attributes:
        records_read: Number of records that concern the pipeline so far; those that were read twice count twice.
        ways: What all records so far say of pipelines that copy both ways.
    """

    def __init__(self, pipeline: Pipeline, source_cluster: str, others: bool) -> None:
        self._group = pipeline.group
        self._cluster = source_cluster
        self._others = others or pipeline.group == ANY_GROUP
        self.ways = NotedWays()
        self._fail = pipeline.error_handling.on_control_message_deserialization_error == "fail"
        self.records_read = 0

    def read(self, messages: Iterable[Message]) -> Iterator[RecordsRead]:
        """Reads messages as records, up to where some were passed over, and then on.

        Raises:
            UnreadableMapping: A record cannot be read, and the policy says fail.
        """
        found: Records = defaultdict(list)
        passed_over: set[MappingKey | None] = set()
        for message in messages:
            try:
                record = self._record(message)
            except ValueError as error:
                passed_over.add(self._passed_over(message, error))
                continue
            if record is None or record.cluster != self._cluster:
                continue
            if passed_over and are_concerned(record.key(), passed_over):
                yield RecordsRead(found, passed_over)
                found, passed_over = defaultdict(list), set()
            source = SourcePartition(record.cluster, record.topic, record.source_topic_id, record.partition)
            self.ways.note(source, record)
            found[record.group, source].append(Placed(message.partition(), message.offset(), record))
            self.records_read += 1
        yield RecordsRead(found, passed_over)

    def _record(self, message: Message) -> MappingRecord | None:
        """The record; None if it is of a pipeline that does not matter."""
        where = f"mapping record at {message.topic()}-{message.partition()}@{message.offset()}"
        if not self._others and parse_key(message.key(), where).group != self._group:
            return None
        return MappingRecord.parse(message.key(), message.value(), where)

    def _passed_over(self, message: Message, error: ValueError) -> MappingKey | None:
        if self._fail:
            if hint := foreign_hint(message.key(), message.topic(), "offsetMapping.topic"):
                raise UnreadableMapping(f"{error}{hint}") from None
            raise UnreadableMapping(
                f"{error}. With errorHandling.onControlMessageDeserializationError: ignore it is passed over: "
                "positions before it are unknown then"
            ) from None
        log.warning("mapping record ignored: %s", error)
        try:
            return parse_key(message.key())
        except ValueError:
            return None
