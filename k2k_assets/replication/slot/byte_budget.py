"""Limits the size of a transaction, so that a slow target accepts it before it times out.

The limit adapts as TCP adapts to a path: it begins small, grows while the target is fast, and shrinks when the target
is slow or a transaction fails. Else a transaction that timed out would be repeated at the same size for ever.
"""

from __future__ import annotations

# Bytes of the first transaction: a target that accepts 0.6 MB/s has it before the usual time-out.
_FIRST = 8_000_000
# The limit never shrinks below these: with fewer bytes the answers take longer than the data.
_LEAST, _LEAST_RECORDS = 64_000, 100
# The limit never grows beyond this: more than the queues of producer and consumer together hold.
_MOST = 1_000_000_000
# Shares of the time-out: a transaction that takes longer than the first is too large; after one that takes less than
# the second the limit may double.
_LONG, _SHORT = 1 / 2, 1 / 8
# A transaction that fails sooner than this after its first record has not failed for its size.
_SOON_SECONDS = 1.0
# Decay of the record size with each transaction: large records are remembered for some dozen transactions without any.
_FORGETTING = 0.9


class ByteBudget:
    """The limit for a slot's transactions. It outlives sessions: a transaction that failed makes the next one smaller.

    It counts the bytes of values, which are known without cost. Keys and headers may be larger than values: so it
    counts records as well, and limits them after a failed transaction.

    Attributes:
        most: Bytes that a transaction may hold.
        most_records: Records that a transaction may hold.
        in_hand: Bytes that are not committed yet.
        records: Records that are not committed yet.
    """

    def __init__(self) -> None:
        self.most = _FIRST
        self.most_records = _MOST
        self.in_hand = self.records = 0
        self._record_size = 1.0
        self._since = 0.0

    @property
    def spent(self) -> bool:
        """Whether the transaction has reached its limit."""
        return self.in_hand >= self.most or self.records >= self.most_records

    def room(self) -> int:
        """Number of records that still fit into the transaction; at least one."""
        return max(1, min(int((self.most - self.in_hand) / self._record_size), self.most_records - self.records))

    def take(self, records: int, size: int, now: float) -> None:
        """Counts records that go into the transaction.

        Args:
            records: Number of records.
            size: Bytes of their values.
            now: Monotonic seconds.
        """
        if not self.records:
            self._since = now
        self.in_hand += size
        self.records += records
        # The largest mean of any chunk, because records of one topic may be a thousand times as large as another's.
        self._record_size = max(self._record_size, size / records)

    def committed(self, share: float) -> None:
        """Adapts the limit after a commit.

        Args:
            share: Time from closing the transaction to its commit, as a share of the transaction time-out.
        """
        if share > _LONG:
            self._set(max(self.in_hand // 2, self.most // 4), max(self.records // 2, self.most_records // 4))
        elif share < _SHORT:
            self._set(
                self.most * 2 if self.in_hand >= self.most // 2 else self.most,
                self.most_records * 2 if self.records >= self.most_records // 2 else self.most_records,
            )
        self._record_size = max(1.0, self._record_size * _FORGETTING)
        self.in_hand = self.records = 0

    def given_up(self, now: float) -> None:
        """Shrinks the limit after a transaction that was not committed, because it may have been too large.

        Args:
            now: Monotonic seconds.
        """
        if self.records and now - self._since >= _SOON_SECONDS:
            self._set(min(self.most, self.in_hand) // 4, min(self.most_records, self.records) // 4)
        self.in_hand = self.records = 0

    def _set(self, most: int, most_records: int) -> None:
        self.most = min(max(most, _LEAST), _MOST)
        self.most_records = min(max(most_records, _LEAST_RECORDS), _MOST)
