"""`replication[].source.start`: accepted and refused values, and precedence."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

from k2k_assets.cli.commands.validate import effective
from k2k_assets.pipeline.json_schema import json_schema
from k2k_assets_tests.pipeline.files import TUTORIAL, changed, load_text, refusal

AT = 1_769_860_800_000


def written(start: str) -> str:
    return TUTORIAL.replace('topic: ".*" }', f'topic: ".*", start: {start} }}')


@pytest.mark.parametrize(
    ("start", "read", "start_from", "shown"),
    [
        ("earliest", "earliest", "earliest", "earliest"),
        ("latest", "latest", "latest", "latest"),
        ("2026-01-31T12:00:00Z", AT, "given", "2026-01-31T12:00:00.000Z"),
        ("'2026-01-31T13:00:00+01:00'", AT, "given", "2026-01-31T12:00:00.000Z"),
        ("2026-01-31T12:00:00", AT, "given", "2026-01-31T12:00:00.000Z"),
        ("2026-01-31", AT - 12 * 3_600_000, "given", "2026-01-31T00:00:00.000Z"),
        (str(AT), AT, "given", "2026-01-31T12:00:00.000Z"),
        (f"'{AT}'", AT, "given", "2026-01-31T12:00:00.000Z"),
        ("{ orders: { 0: 12, '1': 0 } }", {"orders": {0: 12, 1: 0}}, "given", "orders-0 at 12, orders-1 at 0"),
    ],
)
def test_what_is_understood(tmp_path: Path, start: str, read: object, start_from: str, shown: str) -> None:
    """All forms of `start`, how they are read, and how they are shown."""
    pipeline = load_text(tmp_path, written(start))
    assert (pipeline.start_of("orders"), pipeline.start_from("orders")) == (read, start_from)
    assert dict(effective(pipeline))["begins"] == f"{shown}, where there is no position yet"
    assert pipeline.warnings == ()


def test_without_it_auto_offset_reset_says_where_to_begin(tmp_path: Path) -> None:
    reset = {"source/kafka/consumer/auto.offset.reset": "latest"}
    assert load_text(tmp_path, changed(reset)).start_from("orders") == "latest"
    pipeline = load_text(tmp_path, changed({**reset, "replication/0/source/start": "earliest"}))
    assert pipeline.start_from("orders") == "earliest"
    assert [line for line in pipeline.warnings if "auto.offset.reset" in line] == [
        'no effect: source.kafka.consumer."auto.offset.reset": replication[].source.start says where to begin'
    ]


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (
            "yesterday",
            "start: expected earliest, latest, a time or a map of topics to partitions to offsets, found 'yest",
        ),
        ("-1", "start: expected earliest, latest, a time"),
        ("20260131", "start: expected earliest, latest, a time or a map of topics to partitions to offsets, found the"),
        ("'20260131'", "start: expected earliest, latest, a time or a map of topics to partitions to offsets, found '"),
        ("0", "start: expected earliest, latest, a time"),
        ("1.5", "start: expected earliest, latest, a time"),
        ("true", "start: expected earliest, latest, a time"),
        ("[1]", "start: expected earliest, latest, a time"),
        ("{}", "start: expected earliest, latest, a time"),
        ("{ orders: 5 }", "start.orders: expected a map of partitions to offsets, found the number 5"),
        ("{ orders: { x: 5 } }", "start.orders.x: expected the number of a partition"),
        ("{ orders: { 0: -5 } }", 'start.orders."0": expected an offset, found the number -5'),
        ("{ orders: { 0: latest } }", "start.orders.\"0\": expected an offset, found 'latest'"),
        ("{ a/b: { 0: 5 } }", 'start."a/b": expected a topic name'),
        ("{ orders: { 0: 5 } }, exclude: orders", "start.orders: expected a topic that is selected"),
    ],
)
def test_what_is_refused(tmp_path: Path, start: str, message: str) -> None:
    said = refusal(tmp_path, written(start))
    assert f"replication[0].source.{message}" in said
    assert "faults" not in said


@pytest.mark.parametrize("start", ["20260131", "'20260131'", "1769860800"])
def test_a_number_that_is_no_time_is_told_how_to_write_one(tmp_path: Path, start: str) -> None:
    """A date without hyphens, or seconds: as milliseconds they lie in 1970, and all would be copied."""
    assert "A number is milliseconds since the epoch, from the year 2000 on" in refusal(tmp_path, written(start))


def test_it_does_not_change_what_is_copied_where_nor_the_code_version(tmp_path: Path) -> None:
    versions = {load_text(tmp_path, written(start)).code_version for start in ("earliest", "latest", str(AT))}
    assert versions == {load_text(tmp_path, TUTORIAL).code_version}


@pytest.mark.parametrize("start", ["latest", AT, "2026-01-31T12:00:00Z", {"orders": {"0": 5}}])
def test_editors_take_it_too(start: object) -> None:
    document = yaml.safe_load(changed({"replication/0/source/start": start}))
    jsonschema.validate(document, json_schema(), jsonschema.Draft202012Validator)
