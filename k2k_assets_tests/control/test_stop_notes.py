"""Notes of stops without a position: they count as long as there is none, and no position is ever made of one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from k2k_assets.control.commit_log import notes_of, records_of
from k2k_assets.control.commit_record import CommitRecord, is_other_kind
from k2k_assets.control.stop_notes import StopNote, StopNotes, is_note, note_key
from k2k_assets.core.stops.reasons.positions import PositionsLost
from k2k_assets.core.stops.reasons.source_log import StartOutsideLog
from k2k_assets.core.stops.reasons.unclassified import Unclassified
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets_tests.support.memory.fake_log import message

AT = TopicPartition("orders", 3)
NOTE = StopNote("k2k.g", "c", AT, "p", 17, 1, 1_700_000_000_000, StartOutsideLog(AT, 99, 0, 4))


def written(*records: tuple[bytes, bytes | None]) -> list[Any]:
    return [message(TopicPartition("commits", 0), offset, *record) for offset, record in enumerate(records)]


def test_a_note_is_read_as_it_was_written() -> None:
    assert StopNote.parse(NOTE.key_bytes(), NOTE.value_bytes(), "there") == NOTE


def test_a_reason_of_a_newer_release_is_read_as_its_text() -> None:
    value = NOTE.value_bytes().replace(b"start-outside-log", b"of-the-future")
    reason = StopNote.parse(NOTE.key_bytes(), value, "there").reason
    assert isinstance(reason, Unclassified)
    assert reason.noted_code == "of-the-future"


def test_readers_of_positions_pass_over_it() -> None:
    """Those of earlier releases by the beginning of its key, those that go by the value by what that lacks."""
    assert is_other_kind(NOTE.key_bytes())
    with pytest.raises(ValueError, match="missing required field"):
        CommitRecord.parse(NOTE.key_bytes(), NOTE.value_bytes(), "there")
    assert list(records_of(written((NOTE.key_bytes(), NOTE.value_bytes())), "k2k.g", "c")) == []


def test_notes_are_picked_by_group_and_cluster_and_what_cannot_be_read_is_none() -> None:
    others = [replace(NOTE, group="other"), replace(NOTE, cluster="other")]
    found = notes_of(
        written(
            *((note.key_bytes(), note.value_bytes()) for note in (*others, NOTE)),
            (NOTE.key_bytes(), b'{"version":2}'),
            (NOTE.key_bytes()[:-1], NOTE.value_bytes()),
            (NOTE.key_bytes(), None),
        ),
        "k2k.g",
        "c",
    )
    assert list(found) == [(AT, NOTE), (AT, None)]


def test_the_note_of_the_higher_generation_counts_in_any_order() -> None:
    newer = replace(NOTE, generation=18, reason=PositionsLost(AT, "commits"))
    for order in ((NOTE, newer), (newer, NOTE)):
        notes = StopNotes()
        assert notes.take(AT, order[0])
        assert notes.take(AT, order[1]) is (order[1] is newer)
        assert notes.notes == {AT: newer}
    assert not notes.take(AT, newer), "it is known"
    assert not notes.take(AT, None)
    assert notes.notes == {}


def test_its_key_is_that_of_no_other_record() -> None:
    assert is_note(note_key("k2k.g", "c", AT))
    assert not is_note(b'{"kind":"stop","group":"k2k.g","generation":17}')
    assert not is_note(None)
