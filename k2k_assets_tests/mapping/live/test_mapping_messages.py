"""Messages of the mapping topic as records; what was passed over lies between the right ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.control.mapping_records import MappingKey
from k2k_assets.core.wire import encode
from k2k_assets.mapping.algebra.in_memory_mappings import InMemoryMappings
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.live.mapping_messages import MappingMessages, UnreadableMapping
from k2k_assets_tests.support.memory.mapping_topic import CLUSTERS, GROUP, MappingTopic, mapping_record

FIRST, OTHER, NEXT = (
    mapping_record((1, 0), (0, 100), [(0, 0, 100)]),
    mapping_record((1, 1), (0, 10), [(0, 0, 10)], partition=1),
    mapping_record((3, 0), (150, 180), [(150, 212, 30)]),
)
KEY, OTHER_KEY = MappingKey(GROUP, "s", 0), MappingKey(GROUP, "s", 1)


def _messages(policy: str = "ignore", others: bool = False) -> MappingMessages:
    errors = SimpleNamespace(on_control_message_deserialization_error=policy)
    pipeline: Any = SimpleNamespace(group=GROUP, error_handling=errors)
    return MappingMessages(pipeline, CLUSTERS[0], others)


def _written(key: bytes | None) -> list[Any]:
    """With an unreadable record between the first one and the next of its source partition."""
    topic = MappingTopic()
    topic.write(FIRST)
    topic.write_raw(key, b"not json")
    topic.write(OTHER, NEXT)
    return list(topic.partitions[0])


@pytest.mark.parametrize(
    ("key", "pieces"),
    [
        (KEY, [([0, 4], {KEY}), ([6], set())]),
        (OTHER_KEY, [([0], {OTHER_KEY}), ([4, 6], set())]),
        (None, [([0], {None}), ([4, 6], set())]),
        (MappingKey("another", "s", 0), [([0, 4, 6], set())]),
    ],
)
def test_what_is_passed_over_lies_before_the_next_record_of_its_key(key: MappingKey | None, pieces: list[Any]) -> None:
    messages, written = _messages(), _written(encode(key) if key else b"")
    found = [
        (sorted(each.offset for placed in records.values() for each in placed), set(passed_over))
        for records, passed_over in messages.read(written)
    ]
    assert found == pieces
    assert messages.records_read == 3


def test_a_record_that_must_not_be_passed_over_is_named() -> None:
    with pytest.raises(UnreadableMapping, match=r"mapping record at mappings-0@2.*it is passed over"):
        list(_messages("fail").read(_written(FIRST.key_bytes())))


@pytest.mark.parametrize("key", [FIRST.key_bytes(), b"", None])
def test_what_was_passed_over_may_have_cancelled_all_below_the_next_record(key: bytes | None) -> None:
    """A way back to 40, and the copies from there on: a group at 60 was moved to 60."""
    held = InMemoryMappings(GROUP, mark_every=1)
    for records, passed_over in _messages().read(_written(key)):
        held.take(records)
        held.doubt_some(passed_over)
    covered, _ = held.alone(SourcePartition(CLUSTERS[0], "s", "sid", 0))
    assert [tuple(each) for each in covered] == [(150, 180)]
    covered, _ = held.alone(SourcePartition(CLUSTERS[0], "s", "sid", 1))
    assert [tuple(each) for each in covered] == [(0, 10)]
