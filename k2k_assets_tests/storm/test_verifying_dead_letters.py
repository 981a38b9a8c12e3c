"""The judge of dead letters itself: right ones pass, and every wrong one is found."""

from __future__ import annotations

from typing import Any

import pytest

from k2k_assets_tests.storm.failing import Failing, problems_of_dead_letters
from k2k_assets_tests.storm.stages import Together, Transformed
from k2k_assets_tests.support.brokers.kafka import Headers, ReadRecord

FAILS: Headers = [("id", b"1"), ("storm-fails", b"yes")]


def record(offset: int, headers: Headers) -> ReadRecord:
    return ReadRecord("t", 0, offset, b"k", b"v%d" % offset, headers, 1000 + offset)


def letter(offset: int, at: int, **changed: Any) -> ReadRecord:
    reason: Headers = [
        ("__k2k_error_topic", b"t"),
        ("__k2k_error_partition", b"0"),
        ("__k2k_error_offset", b"%d" % offset),
        ("__k2k_error_timestamp", b"%d" % (1000 + offset)),
        ("__k2k_error_rule", b"transform[0]"),
        ("__k2k_error_reason", b"ValueError: as the storm wants"),
    ]
    made = ReadRecord("dead", 0, at, b"k", b"v%d" % offset, [*FAILS, *reason], 1000 + offset)
    return made._replace(**changed)


def later(of: ReadRecord) -> ReadRecord:
    return of._replace(headers=[(k, b"7" if k == "__k2k_error_timestamp" else v) for k, v in of.headers])


SOURCE = [record(0, FAILS), record(1, [("id", b"2")]), record(2, FAILS)]
LETTERS = [letter(0, 0), letter(2, 1)]
STAGES = Failing()


def problems(letters: list[ReadRecord], once: bool = True) -> list[str]:
    return problems_of_dead_letters(SOURCE, letters, STAGES.dead_letter, once)


def test_right_ones_are_right() -> None:
    assert problems(LETTERS) == []
    assert problems([*LETTERS, letter(0, 2)], once=False) == []


@pytest.mark.parametrize(
    ("letters", "words"),
    [
        (LETTERS[:1], "its dead letter is lost"),
        ([*LETTERS, letter(1, 2)], "a dead letter of a record that does not fail"),
        ([LETTERS[0], LETTERS[1]._replace(value=b"masked")], "its dead letter is altered"),
        ([LETTERS[0], later(LETTERS[1])], "its dead letter is altered"),
        ([LETTERS[0], LETTERS[1]._replace(headers=LETTERS[1].headers[:-1])], "its dead letter has no reason"),
        ([LETTERS[0], LETTERS[1]._replace(headers=[FAILS[1], *LETTERS[1].headers[1:]])], "its dead letter is altered"),
    ],
)
def test_wrong_ones_are_found_in_both_modes(letters: list[ReadRecord], words: str) -> None:
    for once in (True, False):
        found = problems(letters, once)
        assert any(words in each for each in found)


def test_exactly_once_finds_those_that_come_again_or_in_another_order() -> None:
    assert any("2 dead letters" in words for words in problems([*LETTERS, letter(2, 2)]))
    assert any("is behind that of a later record" in words for words in problems([letter(2, 0), letter(0, 1)]))


def test_what_an_earlier_stage_leaves_out_is_no_dead_letter() -> None:
    both = Together(Transformed(), Failing())
    assert both.dead_letter(record(0, FAILS))
    assert not both.dead_letter(record(0, [*FAILS, ("storm-private", b"yes")]))
    assert len(both.write_options()["transform"]) == 3
