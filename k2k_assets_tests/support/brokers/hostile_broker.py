"""A broker of one partition that answers as real ones do, but for what a test does to its answers.

It shows what a client survives, never that data are right: for that there are real brokers.
"""

from __future__ import annotations

import io
import socket
import struct
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from k2k_assets_tests.support.brokers.kafka_frames import Api, Request, read_frame
from k2k_assets_tests.support.brokers.listening_broker import HOST, ListeningBroker

# Their fields have types of their own, which plain numbers and texts do.
versions: Any = import_module("kio.schema.api_versions.v3.response")
log_ends: Any = import_module("kio.schema.list_offsets.v6.response")
fetch: Any = import_module("kio.schema.fetch.v16.response")
metadata: Any = import_module("kio.schema.metadata.v12.response")

TOPIC = "orders"
_ID = uuid.UUID(int=1)
_KNOWN = {Api.FETCH: (4, 16), Api.LIST_OFFSETS: (1, 6), Api.METADATA: (0, 12), Api.API_VERSIONS: (0, 3)}
_NO_TAGS = b"\0"
# In a request for one partition: five bytes end it, and before them are 24 behind the partition's index and epoch.
_OFFSET_BEFORE_END = 5 + 24
# In a request for a log end of one partition: the time stands before the three bytes that end it.
_TIME_BEFORE_END, _EARLIEST = 3 + 8, -2

Mangle = Callable[[int, bytes], bytes]
"""Of an API and an answer's frame with its length: what is sent instead."""


class HostileBroker(ListeningBroker):
    """Listens while it is entered.

    Args:
        batches: Its log: batches, each with the offset behind it.
        mangle: What is done to answers.
        log_start: Offsets below are out of range.

    Attributes:
        fetches: How often records were asked for.
    """

    def __init__(
        self, batches: Sequence[tuple[bytes, int]], mangle: Mangle = lambda _, frame: frame, log_start: int = 0
    ) -> None:
        super().__init__("hostile-broker")
        self.batches = batches
        self.log_start = log_start
        self.mangle = mangle
        self.fetches = 0

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            while (frame := read_frame(connection)) is not None:
                request = Request.parse(frame, 0)
                body = self._answer(request)
                if request.api != Api.API_VERSIONS:
                    body = _NO_TAGS + body
                answer = struct.pack(">ii", len(body) + 4, request.correlation) + body
                connection.sendall(self.mangle(request.api, answer))

    def _answer(self, request: Request) -> bytes:
        if request.api == Api.API_VERSIONS:
            keys = tuple(
                versions.ApiVersion(api_key=api, min_version=low, max_version=high)
                for api, (low, high) in _KNOWN.items()
            )
            return _packed(
                versions.ApiVersionsResponse(error_code=ErrorCode.none, api_keys=keys, throttle_time=_duration(0))
            )
        if request.api == Api.METADATA:
            return self._metadata()
        if request.api == Api.FETCH:
            return self._fetched(
                int(struct.unpack_from(">q", request.frame, len(request.frame) - _OFFSET_BEFORE_END)[0])
            )
        when = int(struct.unpack_from(">q", request.frame, len(request.frame) - _TIME_BEFORE_END)[0])
        return self._log_end(self.log_start if when == _EARLIEST else self._end)

    @property
    def _end(self) -> int:
        return self.batches[-1][1] if self.batches else self.log_start

    def _log_end(self, offset: int) -> bytes:
        partition = log_ends.ListOffsetsPartitionResponse(
            partition_index=0, error_code=ErrorCode.none, offset=offset,
        )  # fmt: skip
        topic = log_ends.ListOffsetsTopicResponse(name=TOPIC, partitions=(partition,))
        return _packed(log_ends.ListOffsetsResponse(throttle_time=_duration(0), topics=(topic,)))

    def _metadata(self) -> bytes:
        partition = metadata.MetadataResponsePartition(
            error_code=ErrorCode.none, partition_index=0, leader_id=1, leader_epoch=0,
        )  # fmt: skip
        topic = metadata.MetadataResponseTopic(
            error_code=ErrorCode.none,
            name=TOPIC,
            topic_id=_ID,
            partitions=(partition,),
        )
        broker = metadata.MetadataResponseBroker(node_id=1, host=HOST, port=self.port)
        return _packed(metadata.MetadataResponse(throttle_time=_duration(0), brokers=(broker,), topics=(topic,)))

    def _fetched(self, position: int) -> bytes:
        self.fetches += 1
        end = self._end
        error = ErrorCode.offset_out_of_range if position < self.log_start else ErrorCode.none
        records = b"".join(batch for batch, behind in self.batches if behind > position and not error)
        partition = fetch.PartitionData(
            partition_index=0, error_code=error, high_watermark=end, last_stable_offset=end,
            log_start_offset=self.log_start, aborted_transactions=None, records=records,
        )  # fmt: skip
        topic = fetch.FetchableTopicResponse(topic_id=_ID, partitions=(partition,))
        return _packed(
            fetch.FetchResponse(
                throttle_time=_duration(0),
                error_code=ErrorCode.none,
                session_id=0,
                responses=(topic,),
            )
        )


def _duration(seconds: float) -> Any:
    return timedelta(seconds=seconds)


def _packed(entity: Any) -> bytes:
    written = io.BytesIO()
    entity_writer(type(entity))(written, entity)
    return written.getvalue()
