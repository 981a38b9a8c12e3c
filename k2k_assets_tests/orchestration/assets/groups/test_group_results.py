"""The metadata of groups: small, with any metadata of applications' commits; and groups that cannot be moved."""

from __future__ import annotations

from dataclasses import replace

import dagster as dg

from k2k_assets.cli.mapper_commands.group_status import summary
from k2k_assets.control.group_versions import Version
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import CommitDecision, GroupDecision, Row
from k2k_assets.groups.report import PollResult
from k2k_assets.kafka.groups import CommittedOffset
from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.groups.group_results import (
    group_materialization,
    groups_summary,
    positions_metadata,
    positions_version,
    states,
)
from k2k_assets.orchestration.assets.groups.group_sync import describe


def test_long_metadata_is_cut() -> None:
    texts = {0: "short", 1: "word " * 800, 2: "x" * 4096}
    rows = [
        Row(
            TopicPartition("t", p),
            ((TopicPartition("s", p), CommittedOffset(5, text)),),
            7,
            None,
            CommitDecision.EXACT,
            True,
        )
        for p, text in texts.items()
    ]
    shown = group_materialization(PollResult(Version(1, 2), {"g": GroupDecision("g", {}, rows)}), "g").metadata
    table = shown[keys.POSITIONS]
    assert isinstance(table, dg.TableMetadataValue)
    cells = [str(record.data["metadata"]) for record in table.records]
    assert cells[0] == "short"
    assert all(len(cell) <= 120 and cell.endswith("...") for cell in cells[1:])


def test_what_is_read_again_is_counted_and_what_is_unknown_is_explained() -> None:
    """Both sides are written."""
    places = [TopicPartition("t", p) for p in range(2)]
    words = (CommitDecision.MAY_REPEAT, CommitDecision.UNKNOWN)
    rows = [
        Row(at, ((at, CommittedOffset(5)),), offset, None, word, False, again)
        for at, offset, word, again in zip(places, (7, -1), words, (3, 0), strict=True)
    ]
    result = PollResult(Version(1, 2), {"g": GroupDecision("g", {}, rows)}, unproven={places[1]: "no mappings"})
    shown = group_materialization(result, "g").metadata
    assert (shown[keys.READ_AGAIN], shown[keys.UNPROVEN]) == (3, "no mappings")
    table = shown[keys.POSITIONS]
    assert isinstance(table, dg.TableMetadataValue)
    assert [record.data["read again"] for record in table.records] == [3, 0]
    assert states(result.lines("g")) == "1 may be read again, 1 unknown"
    beside = {"h": GroupDecision("h", {}, [rows[1]._replace(offset=7, decision=CommitDecision.EXACT)])}
    assert keys.UNPROVEN not in group_materialization(replace(result, decisions=beside), "h").metadata
    (line, why) = summary("p", result).splitlines()[1:]
    assert "may be read again, 1 unknown (3 records)" in line
    assert why.strip() == "t-1 is unknown: no mappings"


def test_who_is_ahead_of_the_copy_waits() -> None:
    at = TopicPartition("t", 0)
    words = (CommitDecision.AHEAD, CommitDecision.WAITING, CommitDecision.EXACT)
    rows = [Row(at, ((at, CommittedOffset(5)),), 7, None, word, False) for word in words]
    result = PollResult(Version(1, 2), {"g": GroupDecision("g", {}, rows)})
    assert states(result.lines("g")) == "2 ahead: waiting, 1 exact"


def test_groups_that_are_no_consumer_groups_are_listed() -> None:
    result = PollResult(Version(1, 2), not_handled=("shared", "tasks"))
    assert groups_summary(result)[keys.NOT_HANDLED] == "shared, tasks"
    assert describe(result).endswith("; not handled (no consumer groups): shared, tasks")
    assert groups_summary(PollResult(Version(1, 2)))[keys.NOT_HANDLED] == "none"


def test_groups_are_counted_by_their_worst_position() -> None:
    at = TopicPartition("t", 0)
    words = {
        "exact": ["EXACT", "EXACT"],
        "ahead": ["EXACT", "AHEAD"],
        "waiting": ["WAITING"],
        "unknown": ["AHEAD", "UNKNOWN", "EXACT"],
        "elsewhere": ["NOT_REPLICATED"],
        "left alone": ["EXACT", "ACTIVE"],
        "expired": ["EXPIRED"],
        "empty": [],
    }

    def result(offset: int) -> PollResult:
        rows = {
            group: [Row(at, ((at, CommittedOffset(5)),), offset, None, CommitDecision[word], False) for word in said]
            for group, said in words.items()
        }
        return PollResult(Version(1, 2), {group: GroupDecision(group, {}, of) for group, of in rows.items()})

    shown = positions_metadata(result(7))
    assert (shown[keys.GROUPS_EXACT], shown[keys.GROUPS_AHEAD], shown[keys.GROUPS_UNKNOWN]) == (1, 2, 2)
    assert shown[keys.PARTITIONS] == "12 partitions of 8 groups"
    assert positions_version(result(7)) == positions_version(result(7)) != positions_version(result(8))
