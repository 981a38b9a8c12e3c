"""What an instance says of the partitions that others copy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.replication.extent import Continuous
from k2k_assets.replication.run import Run
from k2k_assets.topic_partition import TopicPartition


def test_it_is_told_anew_when_the_same_instance_takes_more(caplog: pytest.LogCaptureFixture) -> None:
    """Who takes over claims slot by slot: the first look may see one partition gone, the second both."""
    one, two = TopicPartition("a", 0), TopicPartition("a", 1)
    unused: Any = None
    ground: Any = SimpleNamespace(partitions=[one, two])
    run = Run(unused, Continuous(), ground, unused, unused, unused, unused, unused)
    with caplog.at_level("INFO", "k2k.replication"):
        for elsewhere in ({one: "x"}, {one: "x", two: "x"}, {one: "x", two: "x"}, {}, {two: "x"}):
            run._say_what_is_elsewhere(elsewhere)
    assert caplog.messages == [
        "standing by for 1 of 2 partitions, which are copied by x",
        "standing by for 2 of 2 partitions, which are copied by x",
        "standing by for 1 of 2 partitions, which are copied by x",
    ]
