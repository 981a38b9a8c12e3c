"""Numbers for people."""

from __future__ import annotations

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import abbreviate, duration, plural, size


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_340_000, "2.3 MB"), (5e9, "5.0 GB"), (7e15, "7,000.0 TB")],
)
def test_size(number: float, text: str) -> None:
    assert size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.52, "0.5 s"), (12.9, "12 s"), (125, "2 min 5 s"), (3780, "1 h 3 min"), (200_000, "2 d 7 h")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_plural() -> None:
    assert [plural(n, "topic") for n in (0, 1, 2000)] == ["0 topics", "1 topic", "2,000 topics"]
    assert [plural(n, "copy is", "copies are") for n in (0, 1, 2000)] == [
        "0 copies are",
        "1 copy is",
        "2,000 copies are",
    ]


def test_many_names_are_abbreviated() -> None:
    assert abbreviate({"b", "a"}) == "a, b"
    assert abbreviate(TopicPartition("t", n) for n in range(11, 5, -1)) == "t-6, t-7, t-8, t-9, t-10 and 1 more"
