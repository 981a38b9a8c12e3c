"""`k2k validate`: its output for a file alone and with both clusters; it changes nothing."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from k2k_assets.cli.main import run
from k2k_assets.kafka import connection
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import write_pipeline


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def test_valid_file_is_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_pipeline(
        tmp_path,
        "s:9092",
        "t:9092",
        "orders.*",
        sink={"prefix": "copy."},
        features={"exactlyOnce": "enabled", "tracingHeaders": {"offset": "enabled"}},
    )
    assert run(["validate", "-f", str(path)]) == 0
    shown = lines(capsys.readouterr().out)
    assert shown[0] == f"{path.stem}: the pipeline file is valid"
    assert "copies     topics that match 'orders.*'" in shown
    assert "to         topics named copy.<source topic>; the same partition" in shown
    assert any(line.endswith("tracing headers (__k2k_offset)") for line in shown)
    assert "delivery   exactly once, headers are dropped; for more, features.headerReplication: enabled" in shown
    assert "commits    after 1,000 records or 2.0 s" in shown


def test_secrets_are_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = {"bootstrap.servers": "s:9092", "sasl.username": "u", "sasl.password": "hunter2"}
    path = write_pipeline(
        tmp_path, "s:9092", "t:9092", ".*", source={"kafka": {"common": common, "consumer": {"group.id": "g"}}}
    )
    assert run(["validate", "-f", str(path)]) == 0
    captured = capsys.readouterr()
    assert "hunter2" not in captured.out + captured.err


def test_all_faults_of_a_file_are_shown_without_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_pipeline(tmp_path, "s:9092", "t:9092", ".*", features={"exactlyOnes": "enabled"}, nmae="x")
    assert run(["validate", "-f", str(path)]) == 2
    shown = capsys.readouterr().err
    assert "exactlyOnes" in shown
    assert "nmae" in shown
    assert "Traceback" not in shown


def test_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "-f", str(tmp_path / "absent.yaml")]) == 2
    assert "absent.yaml" in capsys.readouterr().err


def test_later_file_wins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = write_pipeline(tmp_path, "s:9092", "t:9092", ".*")
    over = tmp_path / "over.yaml"
    over.write_text("coordination: {commit: {batchSize: 77}}\n")
    assert run(["validate", "-f", str(base), "-f", str(over)]) == 0
    assert "commits    after 77 records" in capsys.readouterr().out


@pytest.mark.integration
@pytest.mark.own_clusters
def test_connect_says_what_would_be_created_and_creates_nothing(
    tmp_path: Path, clusters: KafkaSandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    new, old = kafka.unique("new"), kafka.unique("old")
    kafka.create_topic(clusters.source_servers, new, 3)
    kafka.create_topic(clusters.source_servers, old, 2)
    kafka.create_topic(clusters.target_servers, old, 2)
    path = write_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [new, old])
    before = [kafka.topics(servers) for servers in (clusters.source_servers, clusters.target_servers)]

    assert run(["validate", "-f", str(path), "--connect"]) == 0

    shown = lines(capsys.readouterr().out)
    assert f"{new} (3 partitions) -> {new}: would be created with 3 partitions" in shown
    assert f"{old} (2 partitions) -> {old} (2 partitions)" in shown
    assert f"control topic {path.stem}-commits: would be created with 1 partition" in shown
    assert "selected: 2 topics, 5 partitions" in shown
    assert shown[-1] == "both clusters are ready"
    after = [kafka.topics(servers) for servers in (clusters.source_servers, clusters.target_servers)]
    assert after == before


@pytest.mark.integration
def test_connect_names_the_bookkeeping_that_a_pattern_leaves_out(
    tmp_path: Path, clusters: KafkaSandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    data = kafka.create_topic(clusters.source_servers, kafka.unique("data"))
    internal = kafka.create_topic(clusters.source_servers, f"{data}.checkpoints.internal")
    path = write_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, f"{data}.*")
    assert run(["validate", "-f", str(path), "--connect"]) == 0
    shown = lines(capsys.readouterr().out)
    assert "selected: 1 topic, 1 partition" in shown
    assert f"not selected, because internal: {internal}" in shown


@pytest.mark.integration
def test_connect_and_the_start_name_rules_and_pairs_that_are_for_no_topic(
    tmp_path: Path, clusters: KafkaSandbox, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    data = kafka.create_topic(source, kafka.unique("data"))
    sink = {"sink": {"topic": "source", "partition": "source"}}
    stages = [{"source": {"topic": f"{data}.*"}}, sink, {"source": {"topic": f"absent-{data}"}}, sink]
    rule = {"pattern": data[:-1], "mask": [{"value": "card", "hash": "sha256"}]}
    path = write_pipeline(tmp_path, source, target, ".*", replication=stages, transform=[rule])
    assert run(["validate", "-f", str(path), "--connect"]) == 0
    shown = lines(capsys.readouterr().out)
    said = f"none of the selected topics (1) matches transform[0].pattern '{data[:-1]}' (did you mean '{data}'?): this"
    assert [line for line in shown if line.startswith(f"warning: {said}")] != []
    assert [line for line in shown if line.startswith("warning: no topic of the ") and f"absent-{data}" in line] != []
    copy(load_pipeline([path]))
    assert said in caplog.text


@pytest.mark.integration
@pytest.mark.parametrize(
    ("form", "transport"),
    [("auto", "batches"), ("records", "records, as transport.form says; batches could be used (transport.form: auto)")],
)
def test_connect_says_in_which_form_records_are_brought(
    tmp_path: Path, clusters: KafkaSandbox, capsys: pytest.CaptureFixture[str], form: str, transport: str
) -> None:
    data = kafka.create_topic(clusters.source_servers, kafka.unique("data"))
    path = write_pipeline(
        tmp_path, clusters.source_servers, clusters.target_servers, [data], features={"exactlyOnce": "enabled"},
        transport={"form": form},
    )  # fmt: skip
    assert run(["validate", "-f", str(path), "--connect"]) == 0
    assert f"transport: {transport}" in lines(capsys.readouterr().out)


def test_what_batches_cost_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    features = {"exactlyOnce": "enabled", "headerReplication": "enabled"}
    path = write_pipeline(
        tmp_path, "s:9092", "t:9092", ".*", features=features, producer={"compression.type": "zstd"},
        transport={"form": "auto"},
    )  # fmt: skip
    assert run(["validate", "-f", str(path)]) == 0
    shown = lines(capsys.readouterr().out)
    assert "moves      whole record batches, where the brokers speak what that needs; else record by record" in shown
    costs = [line for line in shown if line.startswith("costs")]
    assert costs == ["costs      compression.type is zstd: each batch that comes with another codec is packed anew"]


def test_settings_that_batches_do_not_know_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_pipeline(
        tmp_path, "s:9092", "t:9092", ".*", features={"exactlyOnce": "enabled"}, producer={"partitioner": "fnv1a"},
        transport={"form": "auto"},
    )  # fmt: skip
    assert run(["validate", "-f", str(path)]) == 0
    shown = lines(capsys.readouterr().out)
    assert "moves      record by record, not whole batches: partitioner is fnv1a" in shown


@pytest.mark.integration
def test_connect_goes_on_after_a_fault(
    tmp_path: Path, clusters: KafkaSandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = kafka.unique("wide")
    kafka.create_topic(clusters.source_servers, wide, 3)
    kafka.create_topic(clusters.target_servers, wide, 2)
    features = {"autoCreateControlTopics": "disabled", "autoCreateTopics": "disabled"}
    path = write_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [wide], features=features)
    assert run(["validate", "-f", str(path), "--connect"]) == 3
    shown = capsys.readouterr().err
    assert f"control topics are missing on the target cluster ({clusters.target_servers})" in shown
    assert f"'{wide}' has 2 partitions and its source '{wide}' has 3" in shown


def test_connect_names_clusters_that_do_not_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 1.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        path = write_pipeline(tmp_path, address, address, ["orders"])
        assert run(["validate", "-f", str(path), "--connect"]) == 3
    shown = capsys.readouterr().err
    assert f"the source cluster at {address} does not answer" in shown
    assert f"the target cluster at {address} does not answer" in shown
