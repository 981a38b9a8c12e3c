"""Results of polls of the offset mapper, made up."""

from __future__ import annotations

from dataclasses import replace

from k2k_assets.control.group_versions import Version
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision, GroupDecision, Row
from k2k_assets.groups.report import PollResult
from k2k_assets.kafka.groups import CommittedOffset, Ends

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("copy.orders", 0)


def poll(words: dict[str, CommitDecision], **rest: object) -> PollResult:
    """Every group stands at 5 on the source, and belongs at 7 on the target."""
    rows = {
        name: Row(
            TARGET,
            ((SOURCE, CommittedOffset(5)),),
            -1 if word is CommitDecision.UNKNOWN else 7,
            None,
            word,
            word is CommitDecision.EXACT,
        )
        for name, word in words.items()
    }
    decisions = {name: GroupDecision(name, {TARGET: 7} if row.commit else {}, [row]) for name, row in rows.items()}
    found = PollResult(Version(1, 2), decisions, source_ends={SOURCE: 9}, target_ends={TARGET: Ends(0, 10)})
    return replace(found, **rest)  # type: ignore[arg-type]
