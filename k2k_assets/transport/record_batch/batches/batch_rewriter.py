"""Passes on the batches of one chunk, or has them packed anew; `rewriting` says which."""

from __future__ import annotations

from collections.abc import Iterable

from k2k_assets.transport.record_batch.batches.batch import (
    BROKERS_TIME,
    CODEC_BITS,
    HEADER,
    SMALL_BYTES,
    RecordBatch,
    is_small,
)
from k2k_assets.transport.record_batch.batches.codecs import NONE, decompressed, is_read_by_brokers
from k2k_assets.transport.record_batch.batches.columns import ArrivedBatch
from k2k_assets.transport.record_batch.batches.compression import compressed
from k2k_assets.transport.record_batch.batches.joining import Joining, Member
from k2k_assets.transport.record_batch.batches.outgoing import OutgoingBatch, passed_on
from k2k_assets.transport.record_batch.batches.packing_settings import PackingSettings
from k2k_assets.transport.record_batch.batches.record_index import have_headers
from k2k_assets.transport.record_batch.batches.sections import HeaderRules
from k2k_assets.transport.record_batch.errors import Unreadable

_VERY_FEW = 10
"""A small batch of so many records is joined with others although it is compressed."""


class BatchRewriter:
    """Makes the outgoing batches of one chunk.

    Args:
        rules: Which headers its records get.
        settings: How batches are packed.
        now: The time that its records get, milliseconds since the epoch; None: their own.
    """

    def __init__(self, rules: HeaderRules, settings: PackingSettings, now: int | None) -> None:
        self._settings = settings
        self._joining = Joining(rules, settings, now)
        self._may_pass = now is None and not rules.adds
        self._keeps_headers = rules.keeps_all
        self._made: list[OutgoingBatch] = []
        self._members: list[Member] = []
        self._codec = NONE
        self._bytes = 0

    def rewritten(self, arrived: Iterable[ArrivedBatch]) -> list[OutgoingBatch]:
        """The outgoing batches of all records, in their order.

        Raises:
            Unreadable: A batch is corrupt.
        """
        may_pass, join, passes = self._may_pass, self._join, self._passes
        for each in arrived:
            batch, offsets = each
            content: bytes | None = None
            attributes, records = batch.attributes, batch.records  # small batches come by the thousand
            if may_pass and not attributes & BROKERS_TIME and batch.end - batch.base == records == len(offsets):
                if not attributes & CODEC_BITS:
                    if is_small(HEADER + len(batch.payload), records):
                        join(Member(each, batch.payload, may_pass=True))
                        continue
                elif records <= _VERY_FEW and len(batch.payload) < SMALL_BYTES:
                    join(Member(each, _content(batch), may_pass=True))
                    continue
                if not self._keeps_headers:
                    content = _content(batch)
                if passes(batch, content):
                    continue
            join(Member(each, _content(batch) if content is None else content, may_pass=False))
        self._end_joining()
        return self._made

    def _passes(self, batch: RecordBatch, content: bytes | None) -> bool:
        """Passes on a whole batch if it is not too large, and has no headers that must not be kept.

        Args:
            batch: The batch.
            content: Its records, decompressed; may be None if headers are kept.
        """
        limit = self._settings.batch_bytes
        codec = batch.codec if self._settings.codec is None else self._settings.codec
        if not self._keeps_headers and _have_headers(batch, content or _content(batch)):
            return False
        if codec == batch.codec and is_read_by_brokers(codec, batch.payload):
            if batch.size > limit and batch.records > 1:
                return False
            made = passed_on(batch)
        else:
            used, payload = compressed(codec, content or _content(batch), self._settings.level)
            if HEADER + len(payload) > limit and batch.records > 1:
                return False
            made = passed_on(batch)._replace(attributes=used, payload=payload, checked=None)
        if self._members:
            self._end_joining()
        self._made.append(made)
        return True

    def _join(self, member: Member) -> None:
        batch, offsets = member.arrived
        asked, size = self._settings.codec, len(member.content)
        codec = batch.attributes & CODEC_BITS if asked is None else asked
        if self._members and (
            codec != self._codec
            or self._bytes + size > self._settings.joined_bytes
            or len(offsets) < batch.records  # only the first one can begin below the position
        ):
            self._end_joining()
        self._members.append(member)
        self._codec = codec
        self._bytes += size

    def _end_joining(self) -> None:
        members, self._members, self._bytes = self._members, [], 0
        if not members:
            return
        first = members[0]
        if len(members) == 1 and first.may_pass and self._passes(first.arrived.batch, bytes(first.content)):
            return
        self._made += self._joining.joined(members, self._codec)


def _content(batch: RecordBatch) -> bytes:
    try:
        return decompressed(batch.codec, batch.payload)
    except Unreadable as found:
        raise Unreadable(found.words, batch.base) from None


def _have_headers(batch: RecordBatch, content: bytes) -> bool:
    try:
        return have_headers(content, batch.records)
    except Unreadable as found:
        raise Unreadable(found.words, batch.base) from None
