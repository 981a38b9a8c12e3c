"""The records of a chunk in memory: as columns, or as a batch that nobody has decoded yet."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TypeVar

from k2k_assets.core.stops.reasons.unclassified import Unclassified
from k2k_assets.transport.chunk import UnreadableRecord
from k2k_assets.transport.headers import Headers

T = TypeVar("T")


@dataclass
class ListRecords:
    """The columns of a chunk as lists; key, value and the rest follow from the offset unless they are given."""

    at: list[int]
    given_keys: list[bytes | None] | None = None
    given_values: list[bytes | None] | None = None
    given_timestamps: list[int] | None = None
    given_headers: list[Headers | None] | None = None
    epoch: int | None = 0
    unreadable: int | None = None
    first_epoch: int | None = 0

    def __len__(self) -> int:
        return len(self.at)

    @property
    def first_offset(self) -> int:
        return self.at[0]

    @property
    def last_offset(self) -> int:
        return self.at[-1]

    @property
    def leader_epoch(self) -> int | None:
        return self.epoch

    @property
    def first_leader_epoch(self) -> int | None:
        return self.first_epoch

    @property
    def _epoch_of_some(self) -> int | None:
        return self.epoch if self.first_epoch == self.epoch else None

    @property
    def first_timestamp(self) -> int:
        return self.timestamps()[0]

    def offsets(self) -> Sequence[int]:
        return self.at

    def keys(self) -> Sequence[bytes | None]:
        return self.given_keys or [b"k%d" % offset for offset in self.at]

    def values(self) -> Sequence[bytes | None]:
        return self.given_values or [b"v%d" % offset for offset in self.at]

    def timestamps(self) -> Sequence[int]:
        return self.given_timestamps or [1_000_000 + offset for offset in self.at]

    def headers(self) -> Sequence[Headers | None]:
        if self.unreadable in self.at:
            reason = Unclassified(f"the record at {self.unreadable} cannot be read")
            raise UnreadableRecord(self.at.index(self.unreadable), reason)
        return self.given_headers or [None] * len(self.at)

    def columns(self) -> ListRecords:
        return self

    def before(self, index: int) -> ListRecords:
        return ListRecords(
            self.at[:index],
            self.given_keys and self.given_keys[:index],
            self.given_values and self.given_values[:index],
            self.given_timestamps and self.given_timestamps[:index],
            self.given_headers and self.given_headers[:index],
            self._epoch_of_some,
            first_epoch=self._epoch_of_some,
        )

    def select(self, kept: Sequence[bool]) -> ListRecords:
        def left(column: Sequence[T] | None) -> list[T] | None:
            return None if column is None else list(compress(column, kept))

        return ListRecords(
            list(compress(self.at, kept)),
            left(self.given_keys),
            left(self.given_values),
            left(self.given_timestamps),
            left(self.given_headers),
            self._epoch_of_some,
            self.unreadable,
            self._epoch_of_some,
        )

    def size(self) -> int:
        return sum(len(value or b"") for value in self.values())


class WholeBatch:
    """Records as a broker sends them: bytes, and what their header says of them.

    Args:
        records: What the bytes hold.

    Attributes:
        raw: The bytes.
        decodings: How often somebody has looked into them.
    """

    def __init__(self, records: ListRecords) -> None:
        self.raw = pickle.dumps(records)
        self.decodings = 0
        self.first_offset, self.last_offset = records.first_offset, records.last_offset
        self.leader_epoch, self.first_leader_epoch = records.leader_epoch, records.first_leader_epoch
        self.first_timestamp = records.first_timestamp
        self._offsets = records.offsets()

    def __len__(self) -> int:
        return len(self._offsets)

    def offsets(self) -> Sequence[int]:
        return self._offsets

    def size(self) -> int:
        return len(self.raw)

    def columns(self) -> ListRecords:
        self.decodings += 1
        records: ListRecords = pickle.loads(self.raw)
        return records
