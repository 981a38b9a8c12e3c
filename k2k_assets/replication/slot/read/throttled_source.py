"""Reads the source no faster than `throttle` allows.

Each rule of `throttle.topics` has a client of its own, and so have all other topics together. A client whose tokens are
spent is not polled: its queue fills up, and it stops fetching. To pause partitions of one shared client instead would
drop what it has fetched for them, and fetch it again: the source would send many times what is copied.

Slots do not talk to each other: a limit is shared by the source partitions, and a slot has the share of those that it
reads. What a slot does not use, no other one does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.throttle import Throttle
from k2k_assets.replication.slot.read.token_bucket import TokenBucket
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.interface import Polled, Position, Source

OpenSource = Callable[[int], Source]
"""Makes a client that holds no more than about so many bytes."""

# How long to wait for one client's records while others have none: nobody waits for all at once.
_SLICE_SECONDS = 0.005
# A client holds what its limit lets through in this time, within bounds.
_BUFFER_SECONDS = 1.0
_LEAST_BUFFER, _MOST_BUFFER = 64 * 1024, 32 * 1024 * 1024


class Limits:
    """The limits of one slot. They outlive its sessions: a session that begins anew has no tokens more.

    Args:
        throttle: What the pipeline file says.
        sharing: How many source partitions share each limit (`Throttle.sharing`).
        clock: The clock.
    """

    def __init__(self, throttle: Throttle, sharing: Sequence[int], clock: Clock = SYSTEM_CLOCK) -> None:
        self._throttle = throttle
        self._sharing = sharing
        rates = (throttle.bytes_per_second, *(rule.bytes_per_second for rule in throttle.topics))
        self._rates = rates
        self._buckets = [None if rate is None else TokenBucket(rate, clock) for rate in rates]

    def lanes(self, partitions: Collection[TopicPartition]) -> list[tuple[list[TopicPartition], list[TokenBucket]]]:
        """Sets the rates for the partitions that a slot reads; returns which of them are limited by which buckets."""
        of_rule: dict[int | None, list[TopicPartition]] = {}
        for tp in sorted(partitions):
            of_rule.setdefault(self._throttle.rule_of(tp.topic), []).append(tp)
        if partitions:
            self._share(0, len(partitions))
        for rule, read in of_rule.items():
            if rule is not None:
                self._share(rule + 1, len(read))
        return [(read, self._of(rule)) for rule, read in of_rule.items()]

    def _share(self, limit: int, read: int) -> None:
        bucket, rate = self._buckets[limit], self._rates[limit]
        if bucket is not None and rate is not None:
            bucket.set_rate(rate * read / max(read, self._sharing[limit]))

    def _of(self, rule: int | None) -> list[TokenBucket]:
        found = [self._buckets[0], self._buckets[rule + 1] if rule is not None else None]
        return [bucket for bucket in found if bucket is not None]


class _Lane:
    """One client, and the buckets that limit it.

    Args:
        source: The client.
        buckets: Its limits; none: it is not limited.
        reads_keys: Whether keys count beside values; they are decoded anyway then.
    """

    def __init__(self, source: Source, buckets: Sequence[TokenBucket], reads_keys: bool) -> None:
        self.source = source
        self._buckets = buckets
        self._reads_keys = reads_keys

    def wait(self) -> float:
        """Seconds until it may be polled."""
        return max((bucket.wait() for bucket in self._buckets), default=0.0)

    def poll(self, limit: int, timeout: float) -> Polled:
        """Polls it for no more than there is room for."""
        limit = min([limit, *(bucket.room() for bucket in self._buckets)])
        polled = self.source.poll(limit, timeout)
        for chunk in polled.chunks:
            count = chunk.count  # decoded, it may have fewer
            size = self._size(chunk)
            for bucket in self._buckets:
                bucket.take(count, size)
        return polled

    def _size(self, chunk: Chunk) -> int:
        size = chunk.records.size()
        if self._reads_keys:
            size += sum(map(len, filter(None, chunk.columns().keys())))
        return size


class ThrottledSource:
    """A source that is read within limits.

    Args:
        open_source: Makes a client.
        limits: The slot's limits.
        reads_keys: Whether records are decoded anyway, so that keys count too.
        clock: The clock.
    """

    def __init__(
        self, open_source: OpenSource, limits: Limits, reads_keys: bool = True, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._open_source = open_source
        self._limits = limits
        self._reads_keys = reads_keys
        self._clock = clock
        self._lanes: list[_Lane] = []

    def assign(
        self, positions: Mapping[TopicPartition, Position], keep_waiting: Callable[[], None] | None = None
    ) -> None:
        self.close()
        for partitions, buckets in self._limits.lanes(positions):
            lane = _Lane(self._open_source(_buffer(buckets)), buckets, self._reads_keys)
            self._lanes.append(lane)  # before it is assigned: whoever closes this closes it
            lane.source.assign({tp: positions[tp] for tp in partitions}, keep_waiting)

    def poll(self, limit: int, timeout: float) -> Polled:
        waits = [lane.wait() for lane in self._lanes]
        ready = [lane for lane, wait in zip(self._lanes, waits, strict=True) if not wait]
        timeout = min([timeout, *filter(None, waits)])
        polled = Polled(is_held_back=len(ready) < len(waits))
        if not ready:
            self._clock.sleep(timeout)
            return polled
        self._lanes.append(self._lanes.pop(0))  # the first to be asked is another one each time
        for lane in ready:
            left = limit - _count(polled)
            if left > 0:
                _add(polled, lane.poll(left, timeout if len(ready) == 1 else 0))
        if len(ready) > 1 and not (polled.chunks or polled.ends or polled.passed):
            _add(polled, ready[0].poll(limit, min(timeout, _SLICE_SECONDS)))
        return polled

    def gather(self, seconds: float) -> None:
        # The sources of a slot go on together; a lane that has to wait fetches no more than its buffer holds.
        if self._lanes:
            self._lanes[0].source.gather(seconds)

    def close(self) -> None:
        while self._lanes:
            self._lanes.pop().source.close()


def _buffer(buckets: Sequence[TokenBucket]) -> int:
    rate = min((bucket.rate for bucket in buckets), default=float(_MOST_BUFFER))
    return int(min(max(rate * _BUFFER_SECONDS, _LEAST_BUFFER), _MOST_BUFFER))


def _count(polled: Polled) -> int:
    return sum(chunk.count for chunk in polled.chunks) + polled.passed


def _add(polled: Polled, more: Polled) -> None:
    polled.chunks += more.chunks
    polled.ends.update(more.ends)
    polled.epochs.update(more.epochs)
    polled.passed += more.passed
    polled.has_more |= more.has_more
