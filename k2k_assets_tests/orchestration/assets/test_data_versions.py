"""The data versions of topics: what they are made of."""

from __future__ import annotations

from k2k_assets.core.digest import digest
from k2k_assets.orchestration.assets.data_versions import version_of

# What the client shows of a topic on brokers before 2.8, which give topics no ids.
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def test_a_topic_that_was_created_anew_is_another_one_at_the_same_offsets() -> None:
    offsets = [(0, 5), (1, 7)]
    versions = {version_of(offsets, topic_id) for topic_id in ("L8NZy89VRJ+4Hjn/bZudQg", "TBO7reAwRAGpzqIiqsILtQ", "")}
    assert len(versions) == 3
    assert version_of(reversed(offsets), "an id") == version_of(offsets, "an id")


def test_without_an_id_offsets_alone_make_the_version_as_they_always_did() -> None:
    assert version_of([(1, 7), (0, 5)], NO_ID) == version_of([(0, 5), (1, 7)], "") == digest("0:5,1:7")
