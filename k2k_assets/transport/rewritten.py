"""Records whose keys, values or headers a stage has made anew; all else of them is as it came."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from k2k_assets.transport.chunk import Columns
from k2k_assets.transport.headers import Headers


class RewrittenColumns:
    """Decoded records with other keys, values or headers.

    Args:
        columns: The records as they came.
        keys: Their keys now.
        values: Their values now.
        headers: Their headers now; None if these are as they came.

    Attributes:
        origin: The records as they came.
    """

    __slots__ = ("_headers", "_keys", "_values", "origin")

    def __init__(
        self,
        columns: Columns,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Sequence[Headers | None] | None = None,
    ) -> None:
        self.origin, self._keys, self._values, self._headers = columns, keys, values, headers

    @property
    def has_new_headers(self) -> bool:
        """Whether the headers are others than these of `origin`."""
        return self._headers is not None

    def __len__(self) -> int:
        return len(self.origin)

    @property
    def first_offset(self) -> int:
        return self.origin.first_offset

    @property
    def last_offset(self) -> int:
        return self.origin.last_offset

    @property
    def leader_epoch(self) -> int | None:
        return self.origin.leader_epoch

    @property
    def first_leader_epoch(self) -> int | None:
        return self.origin.first_leader_epoch

    @property
    def first_timestamp(self) -> int:
        return self.origin.first_timestamp

    def offsets(self) -> Sequence[int]:
        return self.origin.offsets()

    def size(self) -> int:
        return sum(len(value) for value in self._values if value is not None)

    def columns(self) -> RewrittenColumns:
        return self

    def keys(self) -> Sequence[bytes | None]:
        return self._keys

    def values(self) -> Sequence[bytes | None]:
        return self._values

    def timestamps(self) -> Sequence[int]:
        return self.origin.timestamps()

    def headers(self) -> Sequence[Headers | None]:
        return self.origin.headers() if self._headers is None else self._headers

    def before(self, index: int) -> RewrittenColumns:
        headers = None if self._headers is None else self._headers[:index]
        return RewrittenColumns(self.origin.before(index), self._keys[:index], self._values[:index], headers)

    def select(self, kept: Sequence[bool]) -> RewrittenColumns:
        keys, values = list(compress(self._keys, kept)), list(compress(self._values, kept))
        headers = None if self._headers is None else list(compress(self._headers, kept))
        return RewrittenColumns(self.origin.select(kept), keys, values, headers)
