"""The check on a topic, by what the commit log says of it."""

from __future__ import annotations

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.verification.stops import check_copies_on
from k2k_assets.verification.verdict import Judgement


def test_what_was_never_copied_is_in_doubt() -> None:
    log = CommitLog(unreadable={TopicPartition("other", 0): "it cannot be decoded"})
    verdict = check_copies_on("orders", log)
    assert (verdict.judgement, verdict.summary) == (Judgement.WARNED, "nothing of orders is committed yet")
    assert check_copies_on("other", log).judgement is Judgement.FAILED


def test_what_was_never_copied_may_have_been_stopped() -> None:
    verdict = check_copies_on("orders", CommitLog(), seen="the target refuses the record")
    assert (verdict.judgement, verdict.summary) == (Judgement.FAILED, "the target refuses the record")
