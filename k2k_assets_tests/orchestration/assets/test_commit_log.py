"""The metadata of the commit log: totals that can be plotted, and a table with the most important rows first."""

from __future__ import annotations

from dataclasses import replace

import dagster as dg

from k2k_assets.orchestration import metadata as keys
from k2k_assets.orchestration.assets.commit_log import commit_log_metadata, commit_log_version
from k2k_assets.status.positions import PositionRow


def _position(partition: int, lag: int | None, seconds: float | None, stop_code: str = "") -> PositionRow:
    end = None if lag is None else 100 + lag
    return PositionRow(
        "orders", partition, 100, end, lag, seconds, "orders", 100, "commit", 0, "generation 1", stop_code, ""
    )


def test_totals_and_the_worst_partition() -> None:
    shown = commit_log_metadata(
        [_position(0, 0, 0.0), _position(1, 7, 3.25), _position(2, 50, 1.0), _position(3, None, None, "gone")],
        without_position=1,
        most=3,
    )
    assert (shown[keys.LAG], shown[keys.SECONDS_BEHIND], shown[keys.STOPPED]) == (57, 3.25, 2)
    assert shown[keys.WORST] == "orders-1", "it waits for the longest time"
    assert shown[keys.PARTITIONS] == "4 partitions of 1 topic"
    table = shown[keys.POSITIONS]
    assert isinstance(table, dg.TableMetadataValue)
    rows = [row.data["partition"] for row in table.records]
    assert rows == [3, 1, 2], "what is stopped comes first; what does not lag is left out"


def test_a_copy_without_lag_has_no_worst_partition() -> None:
    shown = commit_log_metadata([_position(0, 0, 0.0)], without_position=0)
    assert (shown[keys.LAG], shown[keys.SECONDS_BEHIND], shown[keys.WORST]) == (0, 0.0, "none")


def test_nothing_copied_yet() -> None:
    shown = commit_log_metadata([], without_position=0)
    assert (shown[keys.LAG], shown[keys.WORST], shown[keys.PARTITIONS]) == (0, "none", "0 partitions of 0 topics")
    assert keys.SECONDS_BEHIND not in shown


def test_its_version_says_what_is_copied_where_and_not_how_far() -> None:
    """Mappings and groups are made from it: they are not out of date because records go on."""
    one, other = _position(0, 0, 0.0), _position(1, 7, 3.25)
    version = commit_log_version([one, other])
    assert commit_log_version([other, replace(one, position=900, lag=None)]) == version
    assert commit_log_version([one]) != version
    assert commit_log_version([one, replace(other, target_topic="elsewhere")]) != version
