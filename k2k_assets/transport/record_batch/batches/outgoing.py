"""A batch on its way to the target: its header is made anew, its records stay as they are.

```
source   base offset | ... | CRC | attributes ... record count |  records
target   0           | ... | CRC | attributes ... record count |  records
                             ^ the source's, with what the new 40 bytes change in it
```

Where the records are the source's own, their sum is not made again: what the target's broker checks goes back to
the source's producer. So what damages records on the way is noticed there.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import google_crc32c
import numpy as np

from k2k_assets.transport.record_batch.batches.batch import HEADER, NO_PRODUCER, TRANSACTIONAL, RecordBatch
from k2k_assets.transport.record_batch.batches.crc_shift import shifted

_CHECKED = struct.Struct(">hiqqqhii")
BEFORE_CHECKED = struct.Struct(">qiibI")
"""Base offset, length, leader epoch, magic and sum, which lie before what is summed up."""
LENGTH_LESS = 12
"""Bytes of a batch that its length leaves out."""
_SUMMED = struct.Struct(">I40s")
_CRC_AT = 17
_MAGIC = 2
_NO_EPOCH = -1
_BASE_OFFSET = 0  # the broker gives the offsets, and refuses any other


Checked = tuple[bytes, int]
"""What the source has summed up with its records: the 40 bytes from the attributes on to them; and the sum."""


class OutgoingBatch(NamedTuple):
    """Records that are sent as one batch.

    Attributes:
        attributes: Number of their codec.
        base_timestamp: To which their timestamps are relative.
        max_timestamp: The latest one, -1 for none.
        records: Number of records; at least one.
        payload: The records, packed with deltas from 0 on.
        offsets: The source offset of each.
        checked: What the source has summed up, if the records are its own; None: the sum is made when they are sent.
    """

    attributes: int
    base_timestamp: int
    max_timestamp: int
    records: int
    payload: bytes | memoryview
    offsets: Sequence[int]
    checked: Checked | None = None

    @property
    def size(self) -> int:
        """Bytes of the batch on the wire."""
        return HEADER + len(self.payload)


def passed_on(batch: RecordBatch) -> OutgoingBatch:
    """A batch of the source with its own records, all of them.

    Args:
        batch: Without gaps in its offsets.
    """
    crc, before = _SUMMED.unpack_from(batch.header, _CRC_AT)
    return OutgoingBatch(
        batch.codec,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.records,
        batch.payload,
        range(batch.base, batch.end),
        (before, crc),
    )


def stamped(
    batch: OutgoingBatch,
    producer_id: int = NO_PRODUCER,
    epoch: int = -1,
    sequence: int = -1,
    is_transactional: bool = False,
) -> bytes:
    """The header with which a batch is sent: its 61 bytes, which the payload follows.

    Args:
        batch: The batch.
        producer_id: Who sends it.
        epoch: The producer's epoch.
        sequence: The sequence of its first record.
        is_transactional: Whether it belongs to a transaction.
    """
    attributes, first, latest, records, payload, _, checked = batch
    if is_transactional:
        attributes |= TRANSACTIONAL
    behind = _CHECKED.pack(attributes, records - 1, first, latest, producer_id, epoch, sequence, records)
    crc = google_crc32c.value(behind)
    size = len(payload)
    if checked is not None:
        before, source_crc = checked
        crc = source_crc ^ shifted(crc ^ google_crc32c.value(before), size)
    elif size:
        # The library takes no memory view, but an array over one: so nothing is copied.
        crc = google_crc32c.extend(crc, payload if isinstance(payload, bytes) else np.frombuffer(payload, np.uint8))
    return BEFORE_CHECKED.pack(_BASE_OFFSET, HEADER - LENGTH_LESS + size, _NO_EPOCH, _MAGIC, crc) + behind
