"""What a consumer returned, read without a crash."""

from __future__ import annotations

import pytest

from k2k_assets.kafka.messages import headers_of
from k2k_assets.kafka.offset_ranges import OffsetRange, read_range
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, unique
from k2k_assets_tests.support.brokers.raw_records import RawHeaders, produce_raw


@pytest.mark.integration
def test_headers_that_the_client_cannot_read_are_none_also_where_code_runs_often(clusters: KafkaSandbox) -> None:
    """Python looks for no error after a call that it has made often: the client's broken list would get through."""
    topic = create_topic(clusters.source_servers, unique("odd"))
    readable: list[tuple[bytes, RawHeaders]] = [(b"v", [(b"a", b"1"), (b"", None)])] * 200
    produce_raw(clusters.source_servers, topic, 0, [*readable, (b"odd", [(b"good", b"1"), (b"\xff", b"2")]), *readable])
    settings = {"bootstrap.servers": clusters.source_servers}
    found = [headers_of(message) for chunk in read_range(settings, OffsetRange(topic, 0, 0, 401)) for message in chunk]
    of_a_readable_one = [("a", b"1"), ("", None)]
    assert found == [of_a_readable_one] * 200 + [None] + [of_a_readable_one] * 200
