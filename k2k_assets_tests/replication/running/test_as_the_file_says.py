"""What K2K's users know of its files, on real clusters: overrides, refusals before anything happens, quick commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from k2k_assets.cli.main import run
from k2k_assets.core.deadline import wait_until
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, produce, read_all, topics, unique
from k2k_assets_tests.support.copies.copying import Running, assert_same_content, commit_records, copy
from k2k_assets_tests.support.copies.pipelines import MODES, make_pipeline, write_pipeline

pytestmark = pytest.mark.integration

EXACTLY_ONCE = {"exactlyOnce": "enabled"}


@pytest.fixture
def topic(clusters: KafkaSandbox) -> str:
    """A topic with ten records, and three of a transaction that was aborted."""
    name = create_topic(clusters.source_servers, unique("orders"))
    produce(clusters.source_servers, name, [Record(b"k", b"%d" % n, [("h", b"1")]) for n in range(10)])
    produce(clusters.source_servers, name, [b"aborted"] * 3, abort=True)
    return name


def written(clusters: KafkaSandbox, folder: Path, topic: str, **sections: Any) -> Path:
    sink = {"prefix": "copy."}
    return write_pipeline(folder, clusters.source_servers, clusters.target_servers, [topic], sink=sink, **sections)


def assert_nothing_happened(clusters: KafkaSandbox, path: Path, topic: str) -> None:
    """Neither a copy nor a control topic is on the target."""
    name = yaml.safe_load(path.read_text())["name"]
    assert [found for found in topics(clusters.target_servers) if name in found or topic in found] == []


def test_a_later_file_overrides_an_earlier_one(clusters: KafkaSandbox, tmp_path: Path, topic: str) -> None:
    """Maps are merged, a list is replaced as a whole, and null takes a value away."""
    other = create_topic(clusters.source_servers, unique("other"))
    first = written(
        clusters, tmp_path, other,
        features={"exactlyOnce": "disabled", "headerReplication": "enabled"}, consumer={"auto.offset.reset": "latest"},
    )  # fmt: skip
    later = {
        "features": EXACTLY_ONCE,
        "source": {"kafka": {"consumer": {"auto.offset.reset": None}}},
        "replication": [
            {"source": {"topic": [topic]}},
            {"sink": {"topic": {"suffix": ".copy"}, "partition": "source"}},
        ],
    }
    second = tmp_path / "later.yaml"
    second.write_text(yaml.safe_dump(later))
    pipeline = load_pipeline([first, second])
    assert pipeline.features.exactly_once

    outcome = copy(pipeline)

    assert outcome.stopped == {}
    assert set(outcome.topics) == {topic}
    assert assert_same_content(clusters.source_servers, topic, clusters.target_servers, f"{topic}.copy") == 10


def test_an_unknown_key_is_refused_before_anything_happens(
    clusters: KafkaSandbox, tmp_path: Path, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(clusters, tmp_path, topic, features={"exactlyOnse": "enabled"})
    assert run(["start", "-f", str(path), "--once"]) == 2
    assert "features.exactlyOnse: unknown key; did you mean exactlyOnce?" in capsys.readouterr().err
    assert_nothing_happened(clusters, path, topic)

    path.write_text(path.read_text().replace("exactlyOnse", "exactlyOnce"))
    assert copy(load_pipeline([path])).stopped == {}
    assert len(read_all(clusters.target_servers, f"copy.{topic}")) == 10


@pytest.mark.parametrize("license_", [{"acceptEula": True, "token": "..."}, {"acceptEula": False}, None])
def test_no_license_is_asked_for(clusters: KafkaSandbox, tmp_path: Path, topic: str, license_: object) -> None:
    pipeline = make_pipeline(
        tmp_path, clusters.source_servers, clusters.target_servers, [topic], features=EXACTLY_ONCE, license=license_
    )
    assert copy(pipeline).stopped == {}
    assert len(read_all(clusters.target_servers, topic)) == 10


@pytest.mark.parametrize(
    ("client", "told"),
    [
        ({"producer": {"acks": 1}}, "target.kafka.producer.acks: exactly-once needs all, found"),
        ({"producer": {"enable.idempotence": False}}, '."enable.idempotence": exactly-once needs true, found'),
        (
            {"consumer": {"isolation.level": "read_uncommitted"}},
            '."isolation.level": exactly-once needs read_committed, found',
        ),
    ],
    ids=["acks", "idempotence", "isolation"],
)
def test_settings_against_exactly_once_are_refused_and_missing_ones_set(
    clusters: KafkaSandbox, tmp_path: Path, topic: str, client: dict[str, Any], told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = written(clusters, tmp_path, topic, features=EXACTLY_ONCE, **client)
    assert run(["start", "-f", str(path), "--once"]) == 2
    assert told in capsys.readouterr().err
    assert_nothing_happened(clusters, path, topic)

    pipeline = load_pipeline([written(clusters, tmp_path, topic, features=EXACTLY_ONCE)])
    assert copy(pipeline).stopped == {}
    assert [r.value for r in read_all(clusters.target_servers, f"copy.{topic}")] == [b"%d" % n for n in range(10)]


def test_what_ended_the_program_is_in_the_termination_log(
    clusters: KafkaSandbox, tmp_path: Path, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, log = written(clusters, tmp_path, f"{topic}x"), tmp_path / "termination-log"
    assert run(["start", "-f", str(path), "-l", str(log)]) == 3
    assert f"'{topic}x' does not exist (did you mean '{topic}'?)" in log.read_text()
    log.unlink()
    assert run(["start", "-f", str(path), "-l", str(log), "-w", "disabled"]) == 3
    assert not log.exists()
    assert "does not exist" in capsys.readouterr().err


@MODES
def test_a_record_is_committed_as_soon_as_the_source_runs_dry(
    clusters: KafkaSandbox, tmp_path: Path, topic: str, mode: str
) -> None:
    """Long before `batchSize` records or `batchTimeout`: nobody waits for a transaction to become full."""
    pipeline = make_pipeline(
        tmp_path, clusters.source_servers, clusters.target_servers, [topic], features={"exactlyOnce": mode},
        coordination={"commit": {"batchSize": 100_000, "batchTimeout": "9 minutes", "syncTimeout": "11 minutes"}},
        producer={"transaction.timeout.ms": 600_000},
    )  # fmt: skip
    running = Running(pipeline, 1)
    running.await_copied(10)
    for number in range(10, 13):
        ((_, offset),) = produce(clusters.source_servers, topic, [b"%d" % number])

        def committed(behind: int = offset) -> bool:
            return commit_records(pipeline, clusters.target_servers)[-1].position > behind

        wait_until(committed, 120, f"the commit of record {number}")
        assert len(read_all(clusters.target_servers, topic)) == number + 1
    running.end()
