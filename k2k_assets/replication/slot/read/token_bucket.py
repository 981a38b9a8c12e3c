"""A limit in bytes a second, as a bucket of tokens that fills up at that rate. Pure, but for the clock.

```
  tokens   rate ─┤ ▁▁▁▁▁▁         full: what was not used for a second may go at once
                 │▟      ▙
   a tenth of it ┤        ▙    ▟  enough to go on
               0 ┼─────────▙──▟─
                 │          ▜▛    a chunk may take more than there is: the debt is paid by waiting
```

So the mean is kept whatever the size of records, and who stays below the limit never waits.
"""

from __future__ import annotations

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock

# A full bucket lasts so long.
_BURST_SECONDS = 1.0
# A bucket that was empty is used again when it lasts so long: drops would make a transaction each.
_ENOUGH_SECONDS = 0.1
# Size of a record before any has come.
_FIRST_SIZE = 1024.0
# Decay of the record size with each chunk.
_FORGETTING = 0.9


class TokenBucket:
    """The tokens of one limit. It begins empty, so that restarts do not add up to more than the limit.

    Args:
        rate: Bytes a second.
        clock: The clock.
    """

    def __init__(self, rate: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._rate = rate
        self._tokens = 0.0
        self._at = clock.monotonic()
        self._record_size = _FIRST_SIZE

    @property
    def rate(self) -> float:
        """Bytes a second."""
        return self._rate

    def set_rate(self, rate: float) -> None:
        """Changes the rate. Tokens stay, in seconds, and so does a debt at a lower rate; a higher one pays it off."""
        self._fill()
        if self._tokens > 0 or rate < self._rate:
            self._tokens *= rate / self._rate
        self._rate = rate

    def wait(self) -> float:
        """Seconds until something may be taken; 0 if it may be now."""
        self._fill()
        return max(0.0, _ENOUGH_SECONDS - self._tokens / self._rate)

    def room(self) -> int:
        """Number of records that may be taken now; at least one, because `wait` says when."""
        return max(1, int(self._tokens / self._record_size))

    def take(self, records: int, size: int) -> None:
        """Takes tokens, perhaps more than there are.

        Args:
            records: Number of records.
            size: Their bytes.
        """
        self._fill()
        self._tokens -= size
        # Large records are remembered for some chunks without any: a chunk of them could cost minutes.
        self._record_size = max(1.0, size / records, self._record_size * _FORGETTING)

    def _fill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._tokens + (now - self._at) * self._rate, self._rate * _BURST_SECONDS)
        self._at = now
