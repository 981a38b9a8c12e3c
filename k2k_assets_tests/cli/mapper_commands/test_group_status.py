"""How the offset mapper shows its polls."""

from __future__ import annotations

import logging

import pytest
from rich.console import Console

from k2k_assets.cli.mapper_commands.group_status import GroupLines, poll_line, status_table, summary
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.groups.report import PollResult
from k2k_assets_tests.support.memory.polls import poll


def test_a_poll_in_one_line() -> None:
    result = poll(
        {"a": CommitDecision.EXACT, "b": CommitDecision.EXACT, "c": CommitDecision.FOREIGN},
        committed=frozenset("a"),
        active=frozenset("b"),
        failed={"d": "no answer"},
        not_handled=("shared",),
        absent=("bilingl",),
    )
    assert poll_line(result) == (
        "3 groups: 1 exact, 1 active, 1 foreign; 1 group committed; 1 became active; 1 failed; "
        "not handled (no consumer groups): shared; not on the source: bilingl; 0.00 s"
    )


def test_a_summary_has_a_line_a_group() -> None:
    result = poll(
        {"short": CommitDecision.EXACT, "a-longer-one": CommitDecision.UNKNOWN}, committed=frozenset(["short"])
    )
    assert summary("p", result).splitlines()[1:] == [
        "  a-longer-one  1 partition  unknown  left 4 on the source  0 on the target",
        "  short         1 partition  exact    left 4 on the source  3 on the target  committed",
    ]


def test_of_many_groups_those_that_need_a_look_come_first() -> None:
    console = Console(width=100)
    with console.capture() as captured:
        console.print(
            status_table(poll({**dict.fromkeys("abc", CommitDecision.EXACT), "z": CommitDecision.FOREIGN}), 2)
        )
    shown = captured.get()
    assert shown.index("foreign") < shown.index("exact")
    assert "and 2 more groups" in shown


def test_what_is_known_already_is_not_told_again(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    display = GroupLines(lambda: now[0])

    def told(result: PollResult) -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.INFO, "k2k.groups"):
            display.show(result)
        return [record.message for record in caplog.records]

    strange = poll({"a": CommitDecision.EXACT, "b": CommitDecision.FOREIGN})
    assert told(strange) == ["group b: foreign", poll_line(strange)]
    assert told(strange) == []
    failed = poll({"a": CommitDecision.EXACT, "b": CommitDecision.FOREIGN}, failed={"c": "no answer"})
    assert told(failed) == ["group c: no answer", poll_line(failed)]
    assert told(failed) == []
    moved = poll({"a": CommitDecision.EXACT}, committed=frozenset("a"))
    assert told(moved) == [poll_line(moved)]
    assert told(strange)[0] == "group b: foreign", "it is so again"
    now[0] = 61.0
    assert told(strange) == [poll_line(strange)], "a sign of life a minute"
