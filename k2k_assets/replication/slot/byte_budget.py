"""How much a transaction may hold, so that a slow target has taken it before it times out.

As TCP finds the rate of a path: it begins small, grows while the target is quick, and shrinks where it is slow, or did
not take what was sent at all. A transaction that timed out would otherwise be begun again at the same size for ever.
"""

from __future__ import annotations

# What the first transaction may hold, in bytes: a target that takes 0.6 MB/s has it before the usual time-out.
_FIRST = 8_000_000
# Less than that would not make it quicker: the answers take longer than the bytes.
_LEAST, _LEAST_RECORDS = 64_000, 100
# More than the producer's queue and the consumer's together hold.
_MOST = 1_000_000_000
# Shares of the time-out: a transaction that took longer is too large; where one took less, the next may be twice that.
_LONG, _SHORT = 1 / 2, 1 / 8
# What fails sooner than that after its first record has not failed for its size.
_SOON_SECONDS = 1.0
# Large records are remembered for some dozen transactions that had none.
_FORGETTING = 0.9


class ByteBudget:
    """Outlives the sessions of a slot: what one of them had in hand when it failed makes the next one careful.

    Bytes are those of values, which cost nothing to know. Keys and headers may weigh more than they: so records are
    counted as well, and limited where a transaction has failed.

    Attributes:
        most: Bytes that a transaction may hold.
        most_records: Records that it may hold.
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
        """Whether the transaction holds all that it may."""
        return self.in_hand >= self.most or self.records >= self.most_records

    def room(self) -> int:
        """How many more records the transaction may take; always one."""
        return max(1, min(int((self.most - self.in_hand) / self._record_size), self.most_records - self.records))

    def take(self, records: int, size: int, now: float) -> None:
        """Records go into the transaction.

        Args:
            records: How many.
            size: Their bytes.
            now: Monotonic seconds.
        """
        if not self.records:
            self._since = now
        self.in_hand += size
        self.records += records
        # The largest mean of the chunks: one topic's records may be a thousand times as large as another's.
        self._record_size = max(self._record_size, size / records)

    def committed(self, share: float) -> None:
        """The target has taken what was in hand.

        Args:
            share: How long that took once no more records came, as a share of the time that there is.
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
        """What was in hand, if anything, was not committed: perhaps it was too much.

        Args:
            now: Monotonic seconds.
        """
        if self.records and now - self._since >= _SOON_SECONDS:
            self._set(min(self.most, self.in_hand) // 4, min(self.most_records, self.records) // 4)
        self.in_hand = self.records = 0

    def _set(self, most: int, most_records: int) -> None:
        self.most = min(max(most, _LEAST), _MOST)
        self.most_records = min(max(most_records, _LEAST_RECORDS), _MOST)
