"""Names of partitions."""

from __future__ import annotations

from k2k_assets.core.topic_partition import TopicPartition, by_topic


def test_what_is_known_of_partitions_by_topic_is_in_order() -> None:
    known = {TopicPartition("b", 10): "x", TopicPartition("b", 9): "y", TopicPartition("a", 0): "z"}
    found = by_topic(known)
    assert [(topic, list(partitions.items())) for topic, partitions in found.items()] == [
        ("a", [(0, "z")]),
        ("b", [(9, "y"), (10, "x")]),
    ]
