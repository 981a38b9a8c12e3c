"""`k2k-tool show`: two records side by side, as a table and as JSON. Tests of `verification` cover the reading."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from k2k_assets.cli import tool
from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.verification.content import record_pair
from k2k_assets.verification.content.expected_headers import ClusterIds
from k2k_assets.verification.content.record_pair import Facing, RecordPlace, ShownRecord
from k2k_assets_tests.support.copies.pipelines import write_pipeline

_SEEN = ShownRecord(b"key", b"value", (("trace", b"\xff\x00"), ("none", None)), 1_700_000_000_000, False)
_THERE, _HERE = RecordPlace(TopicPartition("orders", 3), 120), RecordPlace(TopicPartition("copy.orders", 3), 118)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_pipeline(tmp_path, "s:9092", "t:9092", ["orders"])


def _records(
    monkeypatch: pytest.MonkeyPatch,
    records: Mapping[RecordPlace, ShownRecord | None],
    dropped_by: str | None = None,
) -> None:
    """Clusters that hold these, and mappings that know `_THERE` and `_HERE`."""
    faces = {("source", _THERE): _HERE, ("target", _HERE): _THERE}

    def record_at(_: object, cluster: Cluster, place: RecordPlace) -> ShownRecord | None:
        assert cluster.role == ("source" if place.partition.topic == "orders" else "target")
        return records[place]

    monkeypatch.setattr(record_pair, "facing", lambda _, role, place: Facing(faces.get((role, place)), dropped_by))
    monkeypatch.setattr(ClusterIds, "of", lambda *_: ClusterIds("source-id", "target-id"))
    monkeypatch.setattr(record_pair, "record_at", record_at)
    monkeypatch.setattr(record_pair, "settings_at", lambda pipeline, *_: CopySettings.of(pipeline))


@pytest.mark.parametrize("asked", [["-o", _THERE], ["--target", _HERE], ["-o", _THERE, "--target", _HERE]])
def test_a_record_and_its_copy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path, asked: list[object]
) -> None:
    _records(monkeypatch, {_THERE: _SEEN, _HERE: _SEEN})
    assert tool.run(["show", "-f", str(file), *map(str, asked)]) == 0
    out = capsys.readouterr().out
    assert [line.split() for line in out.splitlines() if line.startswith((" record", " value"))] == [
        ["record", "│", "orders:3:120", "│", "copy.orders:3:118"],
        ["value", "│", "value", "│", "value"],
    ]
    assert "trace: 0xff00" in out
    assert "none: null" in out
    assert out.endswith("The copy equals the record.\n")


def test_differences_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path) -> None:
    _records(monkeypatch, {_THERE: _SEEN, _HERE: replace(_SEEN, value=b"x" * 1000, key=None)})
    assert tool.run(["show", "-f", str(file), "-o", str(_THERE)]) == 0
    out = capsys.readouterr().out
    assert "(1,000 bytes)" in out
    assert out.endswith("They differ in: key, value.\n")
    assert tool.run(["show", "-f", str(file), "-o", str(_THERE), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["differs"] == ["key", "value"]
    assert (told["target"]["offset"], told["target"]["record"]["key"]) == (118, None)
    assert told["source"]["record"]["headers"][0] == {"key": "trace", "value": "/wA="}


def test_what_is_not_there(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path) -> None:
    """A record that is gone, or in no mapping, is shown as such, and is no error."""
    elsewhere = RecordPlace(TopicPartition("orders", 0), 7)
    _records(monkeypatch, {elsewhere: None})
    assert tool.run(["show", "-f", str(file), "-o", str(elsewhere)]) == 0
    out = capsys.readouterr().out
    assert "not in the mappings" in out
    assert "There are not two records to compare" in out


def test_a_record_that_was_left_out_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    echo = RecordPlace(TopicPartition("orders", 3), 121)
    _records(monkeypatch, {echo: _SEEN}, dropped_by="bidirectional")
    assert tool.run(["show", "-f", str(file), "-o", str(echo)]) == 0
    assert capsys.readouterr().out.endswith(
        "The record was left out on purpose, by the rule 'bidirectional': it has no copy.\n"
    )
    assert tool.run(["show", "-f", str(file), "-o", str(echo), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["droppedBy"] == "bidirectional"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [([], "expected -o, --target, or both"), (["-o", "orders"], "TOPIC:PARTITION:OFFSET")],
)
def test_usage(capsys: pytest.CaptureFixture[str], file: Path, arguments: list[str], says: str) -> None:
    """Without a record, or with one that is no place, the usage is told, with exit code 2."""
    assert tool.run(["show", "-f", str(file), *arguments]) == 2
    assert says in capsys.readouterr().err
