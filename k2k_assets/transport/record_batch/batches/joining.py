"""Packs the records of some batches, one behind the other, into as few batches as may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from k2k_assets.transport.record_batch.batches.columns import ArrivedBatch
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch
from k2k_assets.transport.record_batch.batches.packing import (
    NO_LIMIT,
    WIDEST,
    PackedRecords,
    RecordColumns,
    batches_of,
    batches_of_columns,
    one_run,
)
from k2k_assets.transport.record_batch.batches.packing_settings import PackingSettings
from k2k_assets.transport.record_batch.batches.record_codec import RawHeaders, decoded
from k2k_assets.transport.record_batch.batches.record_index import RecordIndex, indexed
from k2k_assets.transport.record_batch.batches.sections import HeaderRules
from k2k_assets.transport.record_batch.errors import Unreadable

# An index costs as much as decoding so many records.
_FEW = 48
_BEYOND = 2**63


class Member(NamedTuple):
    """One of the batches that are joined.

    Attributes:
        arrived: The batch, and which of its records are wanted.
        content: All its records, decompressed.
        may_pass: Whether it may pass as it is, should no other one join it.
    """

    arrived: ArrivedBatch
    content: bytes | memoryview
    may_pass: bool


class Joining:
    """Packs the records of batches anew.

    Args:
        rules: Which headers they get.
        settings: How batches are packed.
        now: The time that they get, milliseconds since the epoch; None: their own.
    """

    def __init__(self, rules: HeaderRules, settings: PackingSettings, now: int | None) -> None:
        self._rules, self._settings, self._now = rules, settings, now

    def joined(self, members: Sequence[Member], codec: int) -> Iterator[OutgoingBatch]:
        """Batches of all records that are wanted.

        Args:
            members: Where they are. Only of the first one some may not be wanted, which are its first ones.
            codec: Number of the compression that the batches get.

        Raises:
            Unreadable: A batch is corrupt.
        """
        if sum(member.arrived.batch.records for member in members) > _FEW:
            try:
                return batches_of(self._indexed(members), codec, self._settings)
            except Unreadable:
                pass  # which of them, and what is wrong with it, is found below
        return batches_of_columns(self._decoded(members), codec, self._settings, NO_LIMIT)

    def _decoded(self, members: Sequence[Member]) -> RecordColumns:
        times: list[int] = []
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        headers: list[RawHeaders] = []
        for member in members:
            found = decoded(member.arrived.batch)
            first = len(found.offsets) - len(member.arrived.offsets)
            times += found.timestamps[first:]
            keys += found.keys[first:]
            values += found.values[first:]
            headers += found.headers[first:]
        offsets = _offsets(members)
        if self._now is not None:
            times = [self._now] * len(times)
        return RecordColumns(times, keys, values, self._rules.of_headers(headers, offsets), offsets)

    def _indexed(self, members: Sequence[Member]) -> PackedRecords:
        keeps_headers = self._rules.keeps_all
        content = b"".join([member.content for member in members])
        index = indexed(content, sum([member.arrived.batch.records for member in members]), not keeps_headers)
        batch, wanted = members[0].arrived
        if len(wanted) < batch.records:
            index = index.behind(batch.records - len(wanted))
        offsets = _offsets(members)
        counts = [len(member.arrived.offsets) for member in members]
        bases = np.repeat(np.array([member.arrived.batch.base for member in members]), counts)
        wanted_offsets = np.arange(offsets[0], offsets[-1] + 1) if isinstance(offsets, range) else np.array(offsets)
        if (bases + index.deltas != wanted_offsets).any():
            raise Unreadable("the records have other offsets than their batch says")
        base, laters = _times(index, members, counts) if self._now is None else (self._now, [0] * len(offsets))
        sections = None if keeps_headers else self._rules.of_index(index, offsets)
        if len(members) == 1 and self._now is None and _keeps_places(members[0].arrived):
            skipped = (index.bodies - index.heads).tolist()
            return PackedRecords(base, laters, index.slices(index.heads, index.sections), sections, offsets, skipped)
        return PackedRecords(base, laters, index.slices(index.bodies, index.sections), sections, offsets)


def _keeps_places(arrived: ArrivedBatch) -> bool:
    """Whether places and times in the batch are those that its records get."""
    batch = arrived.batch
    return batch.is_whole and len(arrived.offsets) == batch.records and not batch.has_brokers_time


def _offsets(members: Sequence[Member]) -> Sequence[int]:
    offsets = [member.arrived.offsets for member in members]
    return one_run(offsets[0] if len(offsets) == 1 else list(chain.from_iterable(offsets)))


def _times(index: RecordIndex, members: Sequence[Member], counts: Sequence[int]) -> tuple[int, list[int]]:
    """A base timestamp, and how much later each record is."""
    laters, at = index.laters, 0
    bases: list[int] = []
    for (batch, _), _, _ in members:
        if batch.has_brokers_time:
            laters[at : at + counts[len(bases)]] = 0
            bases.append(batch.max_timestamp)
        else:
            bases.append(batch.base_timestamp)
        at += counts[len(bases) - 1]
    base, lowest, highest = bases[0], min(bases) + int(laters.min()), max(bases) + int(laters.max())
    if not -_BEYOND <= lowest <= highest < _BEYOND or highest - lowest >= WIDEST:
        raise Unreadable("timestamps that are too far apart for one batch")
    if min(bases) != max(bases):
        laters = laters + np.repeat(np.array([each - base for each in bases]), counts)
    return base, laters.tolist()
