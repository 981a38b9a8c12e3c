"""The headers that a copy must have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.messages import Header
from k2k_assets.pipeline.sections.added_headers import AddedHeader
from k2k_assets.transport.chunk import Chunk
from k2k_assets.verification.content.digests import headers
from k2k_assets.verification.content.expected_headers import ClusterIds, ExpectedHeaders, expected_headers, header_words
from k2k_assets_tests.support.memory.fake_records import ListRecords

ADDED = (
    AddedHeader("p", "partition"),
    AddedHeader("o", "offset"),
    AddedHeader("t", "topic"),
    AddedHeader("é", "text", "ü"),
)
own_headers = st.lists(st.tuples(st.text(max_size=2), st.none() | st.binary(max_size=2)), max_size=3)


def message(own: list[Header], topic: str = "orders", partition: int = 3, offset: int = 7) -> Any:
    return SimpleNamespace(headers=lambda: own, topic=lambda: topic, partition=lambda: partition, offset=lambda: offset)


@pytest.mark.parametrize("own", [True, False])
def test_a_word_says_it_all(own: bool) -> None:
    expected = ExpectedHeaders(own, ADDED)
    assert ExpectedHeaders.parse(expected.word) == expected
    assert header_words(["", expected.word, "", expected.word]) == {expected.word: expected}


def test_where_nothing_was_added_the_record_itself_says_what_the_headers_are() -> None:
    settings = CopySettings("read_committed", headers=True, timestamps=True, alone=True)
    assert expected_headers(settings, ClusterIds("a", "b")) is None


@given(own_headers, st.booleans(), st.integers(0, 2**62), st.lists(st.sampled_from(ADDED), min_size=1, max_size=5))
def test_what_the_transport_writes_is_what_is_expected(
    own: list[Header], is_kept: bool, offset: int, added: list[AddedHeader]
) -> None:
    chunk = Chunk(TopicPartition("orders", 3), ListRecords([offset], given_headers=[own]), added=tuple(added))
    chunk.keep_headers = is_kept
    (written,) = chunk.written_headers() or []
    expected = ExpectedHeaders(is_kept, tuple(added))
    assert headers(message(own, offset=offset), expected) == headers(message(written or []))


@pytest.mark.parametrize("wrong", [{"topic": "order"}, {"partition": 4}, {"offset": 8}])
def test_the_headers_of_another_record_are_wrong(wrong: dict[str, Any]) -> None:
    expected = ExpectedHeaders(True, ADDED)
    own: list[Header] = [("a", b"1"), ("a", None)]
    assert headers(message(own, **wrong), expected) != headers(message(own), expected)
    assert headers(message(own[::-1]), expected) != headers(message(own), expected)
    assert headers(message(own), expected._replace(added=ADDED[::-1])) != headers(message(own), expected)


def test_headers_that_are_dropped_need_not_be_readable() -> None:
    def unreadable() -> None:
        raise SystemError("a header's key is not UTF-8")

    record = message([])
    record.headers = unreadable
    assert headers(record, ExpectedHeaders(False, ADDED)) == headers(message([]), ExpectedHeaders(False, ADDED))
    assert headers(record, ExpectedHeaders(True, ADDED)) != headers(message([]), ExpectedHeaders(True, ADDED))
