"""The tasks of `translate_frame`: they turn Arrow batches into Arrow batches with answers. No Spark.

A task reads the runs of a source partition from the index when a row first needs them. It looks rows up by the batch:
grouped by partition, each group in one call.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.algebra.fold import Target
from k2k_assets.mapping.algebra.lost_copies import unless_copied_anew, up_to, without_lost, without_overlaid
from k2k_assets.mapping.algebra.partition_map import Offsets, PartitionMap, SourcePartition
from k2k_assets.mapping.algebra.run_tables import end_of_read
from k2k_assets.mapping.algebra.translate import NO_OFFSET, STATE_LABELS, TranslationState
from k2k_assets.mapping.index import IndexReader
from k2k_assets.mapping.index.manifest import Manifest
from k2k_assets.mapping.index.portion_table import read_portions
from k2k_assets.mapping.index.roots import IndexRoot
from k2k_assets.mapping.live.not_indexed import AS_INDEXED, MappedFrom
from k2k_assets.translation.answers import PositionAnswers, before_cut_off, nowhere, on_source, on_target
from k2k_assets.translation.routes import Routes

ASKED = ("topic", "partition", "offset")
MOST_RUNS = 8_000_000
"""Runs that a task keeps in memory (24 bytes each); if the index has more, rows should be sorted by partition."""


def added_fields(reverse: bool) -> list[pa.Field]:
    """The columns that the answers add."""
    side = "source" if reverse else "target"
    return [
        pa.field(f"{side}_topic", pa.string()),
        pa.field(f"{side}_partition", pa.int32()),
        pa.field(f"{side}_offset", pa.int64()),
        pa.field("state", pa.string(), nullable=False),
    ]


class IndexMaps:
    """Loads maps of source partitions from one version of the index; keeps those that were used last.

    Args:
        root: Directory of the index.
        manifest: Manifest of the version.
        cuts: Target offset from which on copies are lost if any are there, by target partition.
        mapped_from: From where on newer mapping records answer (`not_indexed.mapped_from`).
        copied: The newest commit record of each source partition; those suffice that are doubtful by `mapped_from`.
    """

    def __init__(
        self,
        root: IndexRoot,
        manifest: Manifest,
        cuts: Mapping[Target, int],
        mapped_from: Mapping[SourcePartition, MappedFrom],
        copied: Mapping[SourcePartition, CommitRecord],
    ) -> None:
        self._cuts = cuts
        self._mapped_from = mapped_from
        self._copied = copied
        self._reader = IndexReader.of(root, manifest, read_portions(root, manifest.directory))
        self._positions = {(p.topic, p.source_topic_id, p.partition): p.position for p in manifest.positions}
        self._kept: OrderedDict[SourcePartition, PartitionMap] = OrderedDict()
        self._runs = 0

    def map_of(self, source: SourcePartition) -> PartitionMap:
        """The map, read from the index if it is not among those that were used last."""
        found = self._kept.pop(source, None)
        if found is None:
            found = self._load(source)
        self._kept[source] = found
        return found

    @cached_property
    def sources(self) -> dict[Target, list[SourcePartition]]:
        """The source partitions of each target partition."""
        found: dict[Target, list[SourcePartition]] = defaultdict(list)
        for source in sorted(self._reader.sources()):
            for target in self._reader.last_runs(source).runs:
                found[target].append(source)
        return found

    def _load(self, source: SourcePartition) -> PartitionMap:
        found = self._read(source)
        self._runs += _size(found)
        while self._kept and self._runs > MOST_RUNS:
            _, dropped = self._kept.popitem(last=False)
            self._runs -= _size(dropped)
        return found

    def _read(self, source: SourcePartition) -> PartitionMap:
        start, after_loss, is_doubtful = self._mapped_from.get(source, AS_INDEXED)
        if after_loss:
            return _without_answers(self._reader.last_runs(source), start)
        # As if the index had been built when the copy stood there: what it says of more is void.
        whole = up_to(self._reader.partition_map(source), start)
        if is_doubtful and (newest := self._copied.get(source)):
            whole = unless_copied_anew(whole, self._reader.newest(source), newest)
        covered, tables = without_overlaid(whole.covered, whole.runs)
        found = without_lost(replace(whole, covered=covered, runs=tables), self._cuts.get)
        position = self._positions.get((source.topic, source.topic_id, source.partition))
        return found if position is None else found.reaching(min(position, start))


@dataclass
class FrameTask:
    """Translates batches in a task; its attributes are small enough to be sent there.

    Attributes:
        root: Directory of the index.
        manifest: Manifest of the version.
        routes: The routes of the pipeline.
        reverse: Whether to translate from the target back to the source.
        source_logs: Up to where source partitions are those that were copied; what lies beyond is of another log.
        cuts: As for `IndexMaps`.
        mapped_from: As for it.
        copied: As for it.
    """

    root: IndexRoot
    manifest: Manifest
    routes: Routes
    reverse: bool
    source_logs: Mapping[TopicPartition, int] = field(default_factory=dict)
    cuts: Mapping[Target, int] = field(default_factory=dict)
    mapped_from: Mapping[SourcePartition, MappedFrom] = field(default_factory=dict)
    copied: Mapping[SourcePartition, CommitRecord] = field(default_factory=dict)
    _maps: IndexMaps = field(init=False, repr=False)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Translates batches."""
        self._maps = IndexMaps(self.root, self.manifest, self.cuts, self.mapped_from, self.copied)
        for batch in batches:
            yield self.translated(batch)

    def translated(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Translates a batch: the result has a row for each answer, in the order of the given rows."""
        positions = _numbers(batch, "offset", np.int64)
        rows: list[NDArray[np.int64]] = []
        answers: list[PositionAnswers] = []
        for asked, of_group in _groups(batch):
            for answer in self._answers(asked, positions[of_group]):
                rows.append(of_group)
                answers.append(answer)
        return self._joined(batch, rows, answers)

    def _answers(self, asked: TopicPartition | None, positions: Offsets) -> list[PositionAnswers]:
        if asked is None:
            return [nowhere(len(positions))]
        if self.routes.why_hidden(self.routes.sources_of(asked.topic) if self.reverse else [asked.topic]):
            return [nowhere(len(positions), TranslationState.UNKNOWN)]
        if not self.reverse:
            source = self.routes.source_partition(*asked)
            if source is None:
                return [nowhere(len(positions))]
            return on_target(self.routes, self._maps.map_of(source), positions, self.source_logs.get(asked))
        target = self.routes.target_partition(*asked)
        if target is None:
            return [nowhere(len(positions))]
        today = set(self.routes.source.ids.items())
        sources = [s for s in self._maps.sources.get(target, ()) if (s.topic, s.topic_id) in today]
        found = on_source(self.routes, [self._maps.map_of(source) for source in sources], target, positions)
        return [before_cut_off(answer, self.source_logs) for answer in found]

    def _joined(
        self, batch: pa.RecordBatch, rows: list[NDArray[np.int64]], answers: list[PositionAnswers]
    ) -> pa.RecordBatch:
        at = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
        order = np.argsort(at, kind="stable")
        if len(at) != len(batch):
            batch = batch.take(pa.array(at[order]))
        counts = [len(answer.offsets) for answer in answers]
        offsets = _stacked([answer.offsets for answer in answers], np.int64)[order]
        states = _stacked([answer.states for answer in answers], np.uint8)[order]
        places = list(dict.fromkeys(answer.place for answer in answers))
        place = np.repeat([places.index(answer.place) for answer in answers], counts).astype(np.int32)[order]
        columns = [
            *batch.columns,
            _chosen(pa.array([p.topic if p else None for p in places], pa.string()), place),
            _chosen(pa.array([p.partition if p else None for p in places], pa.int32()), place),
            pa.array(offsets, mask=offsets == NO_OFFSET),
            _chosen(pa.array(STATE_LABELS, pa.string()), states),
        ]
        schema = pa.schema([*batch.schema, *added_fields(self.reverse)])
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _groups(batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition | None, NDArray[np.int64]]]:
    """Groups the rows of a batch by their partition; None for rows with a null."""
    topics = batch.column("topic").dictionary_encode()
    codes = topics.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    partitions = _numbers(batch, "partition", np.int64)
    asked = (codes << 32) | (partitions & 0xFFFFFFFF)
    nulls = np.zeros(len(batch), dtype=np.bool_)
    for name in ASKED:
        if batch.column(name).null_count:
            nulls |= batch.column(name).is_null().to_numpy(zero_copy_only=False)
    asked[nulls] = -1
    if len(asked) and (asked == asked[0]).all():
        order, starts = np.arange(len(asked)), np.array([0])
    else:
        order = np.argsort(asked, kind="stable")
        starts = np.flatnonzero(np.diff(asked[order], prepend=asked[order[:1]] - 1))
    for start, end in pairwise([*starts.tolist(), len(asked)]):
        rows = order[start:end]
        first = int(rows[0])
        if asked[first] == -1:
            yield None, rows
        else:
            yield TopicPartition(topics.dictionary[int(codes[first])].as_py(), int(partitions[first])), rows


def _numbers(batch: pa.RecordBatch, name: str, kind: type) -> NDArray[np.int64]:
    column = pc.fill_null(batch.column(name), 0)
    numbers: NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(kind, copy=False)
    return numbers


def _stacked(arrays: list[NDArray[Any]], kind: type) -> NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=kind)


def _chosen(values: pa.Array, which: NDArray[Any]) -> pa.Array:
    return pc.take(values, pa.array(which))


def _without_answers(mapping: PartitionMap, start: int) -> PartitionMap:
    """The map as a running mapper has it after a loss: it tells which target partitions have copies, and no more.

    Args:
        mapping: The map.
        start: Source offset from which on newer records answer.
    """
    ends = {
        target: end_of_read(min(table.source_end, start - 1), table.target_end)
        for target, table in mapping.runs.items()
        if start
    }
    return replace(mapping, covered=(), runs=ends).reaching(start)


def _size(mapping: PartitionMap) -> int:
    return sum(map(len, mapping.runs.values()))
