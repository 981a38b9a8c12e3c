"""The check on a topic, from the commit log."""

from __future__ import annotations

from k2k_assets.control.commit_log import CommitLog
from k2k_assets.control.pause_records import Pause
from k2k_assets.core.stops.reason import render
from k2k_assets.core.stops.reasons.records import RecordRefused
from k2k_assets.core.stops.reasons.source_log import RecordsDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.verification.stops import check_copies_on
from k2k_assets.verification.verdict import Judgement
from k2k_assets_tests.support.memory.plans import commit_record


def test_what_was_never_copied_is_in_doubt() -> None:
    log = CommitLog(unreadable={TopicPartition("other", 0): "it cannot be decoded"})
    verdict = check_copies_on("orders", log)
    assert (verdict.judgement, verdict.summary) == (Judgement.WARNED, "nothing of orders is committed yet")
    assert check_copies_on("other", log).judgement is Judgement.FAILED


def test_what_was_never_copied_may_have_been_stopped() -> None:
    reason = RecordRefused(TopicPartition("orders", 1), 7, 9, "copy", "it is too large")
    verdict = check_copies_on("orders", CommitLog(), seen={1: reason})
    assert (verdict.judgement, verdict.summary) == (Judgement.FAILED, f"orders-1: {render(reason)}")


def test_what_is_stopped_is_told_with_code_and_what_to_do() -> None:
    tp = TopicPartition("orders", 1)
    reason = RecordsDeleted(tp, 3, 8)
    log = CommitLog({tp: commit_record(tp, 3, reason=reason)}, {TopicPartition("orders", 2): "it cannot be decoded"})
    verdict = check_copies_on("orders", log)
    assert verdict.judgement is Judgement.FAILED
    assert [offender.what for offender in verdict.offenders] == [
        f"orders-1: {render(reason)}",
        "orders-2: [position-unreadable] it cannot be decoded. To go on without it: "
        "k2k-tool set -f FILE -o orders:2:OFFSET",
    ]


def test_a_paused_topic_passes_with_a_note_unless_it_is_stopped() -> None:
    tp, pause = TopicPartition("orders", 1), Pause("anna@ops1", 0, "month end")
    for log in (CommitLog(), CommitLog({tp: commit_record(tp, 3)})):
        verdict = check_copies_on("orders", log, paused=pause)
        assert verdict.judgement is Judgement.PASSED
        assert verdict.summary.startswith("orders is paused by anna@ops1: month end. k2k-tool resume")
    log = CommitLog({tp: commit_record(tp, 3, reason=RecordsDeleted(tp, 3, 8))})
    assert check_copies_on("orders", log, paused=pause).judgement is Judgement.FAILED
