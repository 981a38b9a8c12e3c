"""Proves stretches one after the other: each reads both sides by batches, and says how far they are the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from k2k_assets.core.errors import K2KError
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.errors import Restart, SourceStopped
from k2k_assets.transport.record_batch.errors import ConnectionLost, Unreadable
from k2k_assets.verification.content.by_batches.mapped_offsets import MappedOffsets
from k2k_assets.verification.content.by_batches.proof import Doubt, Proof
from k2k_assets.verification.content.by_batches.reading import ReadsBatches, StretchReader, TimeIsUp, batch_source

FIRST_DOUBT = 1000
"""So many offsets are left to the comparison by records behind a doubt; twice as many behind the next one."""


class ProvenPart(NamedTuple):
    """A part of a stretch that is proven, and what is in doubt behind it.

    Attributes:
        topic: Source topic.
        partition: Source partition.
        start: First source offset of the part.
        end: Source offset after it.
        first: Offset of its first record; -1 if no record is proven.
        last: Offset of its last record; likewise.
        records: Number of its records.
        undecoded: How many of them were not looked at, because they lie in equal batches.
        bytes_: Bytes of batches that were read, on both sides.
        milliseconds: How long it took.
        doubt: What is in doubt behind it; empty if nothing is.
        doubt_end: Source offset after what is left because of that.
    """

    topic: str
    partition: int
    start: int
    end: int
    first: int
    last: int
    records: int
    undecoded: int
    bytes_: int
    milliseconds: int
    doubt: str
    doubt_end: int


@dataclass(frozen=True, slots=True)
class CopiedStretch:
    """A stretch of a source partition, and where its copies are.

    Attributes:
        source: The source partition.
        source_id: Topic id of its topic.
        start: First source offset.
        end: Source offset after it.
        target: The target partition.
        target_id: Topic id of its topic.
        mapped: The mapped offsets of the stretch.
    """

    source: TopicPartition
    source_id: str
    start: int
    end: int
    target: TopicPartition
    target_id: str
    mapped: MappedOffsets


class Prover:
    """Reads both clusters; one stretch at a time.

    Args:
        source: Consumer settings, librdkafka names.
        target: Likewise.
        until: The time limit, monotonic seconds.
        open_source: Makes the client of one side.
    """

    def __init__(
        self,
        source: Mapping[str, object],
        target: Mapping[str, object],
        until: float,
        open_source: Callable[[Mapping[str, object]], ReadsBatches] = batch_source,
    ) -> None:
        self._properties = source, target
        self._open_source = open_source
        self._until = until
        self._sources: list[ReadsBatches] = []
        self._useless = ""

    def close(self) -> None:
        """Closes all connections."""
        for source in self._sources:
            source.close()

    def parts(self, stretch: CopiedStretch) -> Iterator[ProvenPart]:
        """The parts of a stretch that are proven, in order, as far as time allows.

        Where something is in doubt, it goes on behind that, until it knows that a cluster cannot be read by batches.
        """
        start, left_out = stretch.start, FIRST_DOUBT
        while start < stretch.end and not self._useless and time.monotonic() < self._until:
            mapped = stretch.mapped.from_offset(start)
            if mapped is None:
                return
            part = self._part(stretch, mapped, start, left_out)
            yield part
            if not part.doubt:
                return
            start, left_out = part.doubt_end, 2 * left_out

    def _part(self, stretch: CopiedStretch, mapped: MappedOffsets, start: int, left_out: int) -> ProvenPart:
        started = time.monotonic()
        streams: list[StretchReader] = []
        proof, doubt = None, ""
        try:
            on_source, on_target = self._opened()
            streams.append(StretchReader(on_source, stretch.source, stretch.source_id, start, stretch.end, self._until))
            ends = mapped.first_target, mapped.target_end
            streams.append(StretchReader(on_target, stretch.target, stretch.target_id, *ends, self._until))
            proof = Proof(mapped, streams[0], streams[1], start, stretch.end)
            while proof.step():
                pass
        except TimeIsUp:
            pass
        except Unreadable as found:
            doubt = found.words
        except (Doubt, SourceStopped) as found:
            doubt = str(found)
        except (Restart, ConnectionLost, K2KError) as found:
            doubt = self._useless = str(found)
        records, last, undecoded = (proof.records, proof.last, proof.undecoded) if proof else (0, -1, 0)
        end = stretch.end if proof and proof.is_complete else max(start, last + 1)
        return ProvenPart(
            *stretch.source,
            start,
            end,
            int(mapped.starts[0]) if records else -1,
            last,
            records,
            undecoded,
            sum(stream.bytes_ for stream in streams),
            round(1000 * (time.monotonic() - started)),
            doubt,
            min(stretch.end, end + left_out) if doubt else end,
        )

    def _opened(self) -> list[ReadsBatches]:
        if not self._sources:
            for properties in self._properties:
                self._sources.append(self._open_source(properties))
        return self._sources
