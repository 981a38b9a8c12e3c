"""Which partitions count as not copied, whatever their offsets."""

from __future__ import annotations

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import TopicDescription
from k2k_assets.orchestration.assets.topics.topic_report import out_of_step
from k2k_assets_tests.status.records import commit_record


def test_a_position_counts_only_for_the_topic_that_it_is_of() -> None:
    good, stopped, gone, anew, unreadable = (TopicPartition(name, 1) for name in ("g", "s", "d", "a", "u"))
    log = CommitLog(
        {
            **{tp: commit_record(tp, source_topic_id=f"id of {tp.topic}") for tp in (good, gone)},
            stopped: commit_record(stopped, source_topic_id="id of s", reason=SourceDeleted("s")),
            anew: commit_record(anew, source_topic_id="the id before"),
        },
        unreadable={unreadable: "no JSON"},
    )
    on_source = {name: TopicDescription(name, f"id of {name}", 2) for name in ("g", "s", "a", "u")}
    assert out_of_step(log, on_source) == {"s": {1}, "d": {1}, "a": {1}, "u": {1}}
