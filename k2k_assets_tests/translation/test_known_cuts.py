"""Up to where the log of a source is the one that was copied, by what was found before, without clusters."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import Refused
from k2k_assets.core.stops.reasons.source_log import RecordsDeleted, SourceDiverged, SourceTruncated
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.cluster_offsets import LedOffsets
from k2k_assets.kafka.groups import CommittedOffset
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.live.live import Cut
from k2k_assets.translation import source_logs
from k2k_assets.translation.log_ends import NOT_KNOWN
from k2k_assets.translation.routes import Routes, Standing
from k2k_assets.translation.source_logs import LogEnds, SourceLogs, told_by_stops
from k2k_assets.translation.translator import OffsetTranslator
from k2k_assets.transport.interface import Position
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.plans import commit_record


def test_without_a_leader_a_log_that_was_cut_off_is_no_other_than_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stays unknown in it would else be exact for as long as nobody can be asked."""
    cut, found, whole = (TopicPartition("orders", n) for n in range(3))
    pipeline = make_pipeline(tmp_path, "s:1", "t:1", ["orders"])
    source = Mock(spec=Cluster)
    logs = SourceLogs(pipeline, source)
    copied = {tp: _copied(tp, 9, 0, source_was_cut=tp == cut) for tp in (cut, found, whole)}
    everywhere = dict.fromkeys(copied, 9)
    source.led_offsets.return_value = LedOffsets({}, {})
    source.led_ends.return_value = (LedOffsets(everywhere, {}), dict.fromkeys(copied, 1))
    monkeypatch.setattr(logs, "_validated", lambda wanted, _: dict.fromkeys(wanted, 2**62) | {found: 5})
    assert logs.ends(copied, copied, ()).offsets == {cut: 9, found: 5, whole: 9}
    _lose_leaders(source, copied)
    for _ in range(2):
        assert logs.ends(copied, copied, ()).offsets == {cut: NOT_KNOWN, found: 5}


def test_without_a_leader_the_stop_of_the_copy_tells_where_the_log_was_cut_off(tmp_path: Path) -> None:
    """A process that begins now has not asked the leader itself, and cannot any more."""
    diverged, untold, truncated, twice, whole = (TopicPartition("orders", n) for n in range(5))
    pipeline = make_pipeline(tmp_path, "s:1", "t:1", ["orders"])
    copied = {
        diverged: _copied(diverged, 9, 0, reason=SourceDiverged(diverged, 9, 5)),
        untold: _copied(untold, 9, 0, reason=SourceDiverged(untold, 9, None)),
        truncated: _copied(truncated, 9, 0, reason=SourceTruncated(truncated, 9, 5)),
        twice: _copied(twice, 9, 0, reason=SourceDiverged(twice, 9, 5), source_was_cut=True),
        whole: _copied(whole, 9, 0, reason=RecordsDeleted(whole, 9, 12)),
    }
    known = {diverged: 5, untold: NOT_KNOWN, truncated: NOT_KNOWN}
    assert told_by_stops(copied) == known | {twice: 5}
    source = Mock(spec=Cluster)
    _lose_leaders(source, copied)
    logs = SourceLogs(pipeline, source)
    assert logs.ends(copied, copied, ()).offsets == known | {twice: NOT_KNOWN}
    assert logs.ends(copied, copied).offsets == known | {twice: 5}, "a position of no group is one of today's log"


def test_what_a_stop_tells_holds_until_somebody_says_where_the_copy_goes_on(tmp_path: Path) -> None:
    """No leader knows the leader epoch of records any more that retention has deleted meanwhile."""
    at = TopicPartition("orders", 0)
    source = Mock(spec=Cluster)
    logs = SourceLogs(make_pipeline(tmp_path, "s:1", "t:1", ["orders"]), source)
    source.led_ends.return_value = (LedOffsets({at: 150}, {}), {at: 1})
    source.led_offsets.return_value = LedOffsets({at: 120}, {})
    stopped = _copied(at, 100, 0, reason=SourceDiverged(at, 100, 40))
    assert logs.ends([at], {at: stopped}).offsets == {at: 40}


def test_a_source_that_does_not_answer_is_what_the_stops_say(tmp_path: Path) -> None:
    """As after a disaster, when only the target is left."""
    at, whole = (TopicPartition("orders", n) for n in range(2))
    copied = {
        SourcePartition("c", tp.topic, "id", tp.partition): _copied(tp, 100, 0, source_topic_id="id", **more)
        for tp, more in {at: {"reason": SourceDiverged(at, 100, 40)}, whole: {}}.items()
    }
    mappings: Any = SimpleNamespace(copied=lambda: copied)
    pipeline, away = make_pipeline(tmp_path, "s:1", "t:1", ["orders"]), Mock(spec=Cluster)
    nowhere = Standing({"orders": "id"}, {})
    translator = OffsetTranslator(
        pipeline,
        away,
        away,
        mappings,
        Routes("c", {"orders": "orders"}, frozenset(), nowhere, nowhere),
        Cut({}, {}, {}),
    )
    assert translator.source_logs([at, whole]) == {at: 40}
    away.led_ends.assert_not_called()


@pytest.mark.parametrize("offset", [2**63, -(10**30)])
def test_what_is_too_large_for_an_offset_is_refused(tmp_path: Path, offset: int) -> None:
    pipeline, nobody = make_pipeline(tmp_path, "s:1", "t:1", ["orders"]), Mock(spec=Cluster)
    nowhere = Standing({"orders": "id"}, {})
    known = Routes("c", {"orders": "orders"}, frozenset(), nowhere, nowhere)
    translator = OffsetTranslator(pipeline, nobody, nobody, Mock(), known, Cut({}, {}, {}))
    for ask in (translator.translate, translator.translate_back):
        with pytest.raises(Refused, match="an offset is a number of 0 to 9223372036854775807"):
            ask("orders", 0, [5, offset])


@pytest.mark.parametrize(
    ("read", "why"),
    [
        ((30, 0), ""),
        ((90, 1), ""),
        ((90, 0), "commits leader epoch 0, of before"),
        ((130, 1), "holds what was copied up to offset 120 only"),
    ],
)
def test_why_a_position_is_of_another_log_is_said(read: tuple[int, int], why: str) -> None:
    at, other = (TopicPartition("orders", n) for n in range(2))
    logs = LogEnds({at: 120, other: NOT_KNOWN}, {other: "no leader"}, {at: {0: 40}})
    said = logs.why_unknown(at, CommittedOffset(read[0], "", read[1]))
    assert why in said
    assert bool(said) == bool(why)
    assert logs.why_unknown(other, CommittedOffset(0)).endswith("is not known now: no leader")


def test_while_a_backlog_is_copied_a_leader_is_asked_once_for_the_end_of_its_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader was asked again in each poll, about each partition, because the position had risen."""
    partitions = [TopicPartition("orders", n) for n in range(300)]
    cut = partitions[7]
    source, logs, asked = _leaders(tmp_path, monkeypatch, partitions, {cut: 250})
    for position in range(100, 500, 100):
        copied = {tp: _copied(tp, position, 0) for tp in partitions}
        wanted = dict.fromkeys(partitions, 1000) | ({cut: 250} if position > 250 else {})
        assert logs.ends(copied, copied).offsets == wanted
    assert sorted(asked) == partitions
    _lose_leaders(source, partitions)
    assert logs.ends(copied, copied).offsets == {cut: 250}, "an epoch that has ended is no cut-off"


def test_those_of_which_nobody_told_in_time_are_asked_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that never tells is not in the way of all others."""
    monkeypatch.setattr(source_logs, "_AT_ONCE", 1)
    partitions = [TopicPartition("orders", n) for n in range(4)]
    _, logs, asked = _leaders(tmp_path, monkeypatch, partitions, {}, silent=partitions[:2])
    monkeypatch.setattr(source_logs, "_SECONDS", 0.05)
    copied = {tp: _copied(tp, 9, 0) for tp in partitions}
    for _ in range(4):
        found = logs.ends(copied, copied)
    assert found.offsets == dict.fromkeys(partitions[:2], NOT_KNOWN) | dict.fromkeys(partitions[2:], 1000)
    assert all(asked.count(tp) == 1 for tp in partitions[2:])
    why = found.why_unknown(partitions[0], CommittedOffset(0))
    assert why == (
        "up to where orders-0 still holds what was copied is not known now: it has another leader since, who did not "
        "tell in time"
    )


def _leaders(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    partitions: Collection[TopicPartition],
    epoch_ends: Mapping[TopicPartition, int],
    silent: Collection[TopicPartition] = (),
) -> tuple[Mock, SourceLogs, list[TopicPartition]]:
    """Leaders whose logs end at 1000, in epoch 1; epoch 0 ends at 900. The list gets the partitions that are asked."""
    source = Mock(spec=Cluster)
    logs = SourceLogs(make_pipeline(tmp_path, "s:1", "t:1", ["orders"]), source)
    everywhere = dict.fromkeys(partitions, 1000)
    source.led_ends.return_value = (LedOffsets(everywhere, {}), dict.fromkeys(partitions, 1))
    source.led_offsets.side_effect = lambda asked, which: LedOffsets(
        dict.fromkeys(asked, 0 if which == "earliest" else 1000), {}
    )
    asked: list[TopicPartition] = []

    def validated(wanted: Mapping[TopicPartition, Position], deadline: Deadline) -> dict[TopicPartition, int]:
        asked.extend(wanted)
        if not wanted.keys().isdisjoint(silent):
            time.sleep(deadline.remaining())
        ends = {tp: epoch_ends.get(tp, 900) for tp in wanted if tp not in silent}
        return {tp: end if end < wanted[tp].offset else 2**62 for tp, end in ends.items()}

    monkeypatch.setattr(logs, "_validated", validated)
    return source, logs, asked


def _lose_leaders(source: Mock, partitions: Iterable[TopicPartition]) -> None:
    nobody = dict.fromkeys(partitions, "no leader")
    source.led_ends.return_value = (LedOffsets({}, nobody), {})


def _copied(at: TopicPartition, position: int, epoch: int | None, **more: Any) -> CommitRecord:
    return commit_record(at, position, leader_epoch=epoch, **more)
