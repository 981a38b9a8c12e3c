"""`k2k sandbox up`: its output, its file, and that it leaves nothing behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from k2k_assets.cli.commands import sandbox
from k2k_assets.cli.main import run
from k2k_assets.core.errors import K2KError, Refused
from k2k_assets.demo.decoded import compare_decoded, schemas_at
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import pipeline_file
from k2k_assets.sandbox.broker_settings import is_free
from k2k_assets.sandbox.readings import READINGS
from k2k_assets.sandbox.traffic import SAMPLE_TOPICS
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.copies.copying import copy

_UP = [sys.executable, "-m", "k2k_assets.cli.main", "sandbox", "up"]


def until_it_is_up(process: subprocess.Popen[str]) -> str:
    """What the command says until its clusters are up."""
    assert process.stdout is not None
    said = ""
    while "Ctrl-C stops" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    return said


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize(
    ("number", "option"),
    [
        pytest.param(signal.SIGINT, "--keep-writing", id="interrupted"),
        pytest.param(signal.SIGTERM, "--no-sample-traffic", id="terminated", marks=pytest.mark.storm),
    ],
)
def test_up(number: signal.Signals, option: str, tmp_path: Path) -> None:
    """It tells where its clusters are, writes a pipeline file for them, and a signal ends all its processes."""
    process = subprocess.Popen([*_UP, option], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        said = until_it_is_up(process)
        source, target = re.findall(r"(?:source|target)  (127\.0\.0\.1:\d+)", said)
        pipeline = load_pipeline([tmp_path / "sandbox.yaml"])
        assert pipeline.features.exactly_once
        assert pipeline.features.offset_mapping
        assert pipeline.features.header_replication
        written = {name for name in kafka.topics(source) if pipeline.selection.matches(name)}
        assert ("demo.orders" in written) == (option == "--keep-writing")
        assert kafka.topics(target) == {}
        if written:
            outcome = copy(pipeline)
            assert set(outcome.topics) == written
            assert not outcome.stopped
        else:
            with pytest.raises(Refused, match="0 topics looked at"):
                copy(pipeline)
        assert "k2k start -f sandbox.yaml" in said
        process.send_signal(number)
        assert process.wait(20) == 0
        assert all(is_free(int(servers.partition(":")[2])) for servers in (source, target))
    finally:
        process.kill()


@pytest.mark.slow
@pytest.mark.integration
def test_up_with_registries_writes_a_pipeline_that_maps_schema_ids(tmp_path: Path) -> None:
    """A registry stands beside each cluster, and what was copied is decoded by the target's; a signal ends all."""
    up = subprocess.Popen([*_UP, "--registries"], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        said = until_it_is_up(up)
        sides = ("source", "target")
        servers = [re.findall(rf"^{side}  (127\.0\.0\.1:\d+)$", said, re.MULTILINE)[0] for side in sides]
        urls = [re.findall(rf"^{side}  schema registry  (http\S+)$", said, re.MULTILINE)[0] for side in sides]
        pipeline = load_pipeline([tmp_path / "sandbox.yaml"])
        assert pipeline.features.schema_mapping
        assert [pipeline.registry(side).config["schema.registry.url"] for side in ("source", "target")] == urls

        outcome = copy(pipeline)

        assert not outcome.stopped
        assert outcome.topics[READINGS].records > 0
        values: list[dict[int, list[bytes | None]]] = [{}, {}]
        for of_side, at in zip(values, servers, strict=True):
            for record in kafka.read_all(at, READINGS):
                of_side.setdefault(record.partition, []).append(record.value)
        decoded = compare_decoded(READINGS, values[0], values[1], (schemas_at(urls[0]), schemas_at(urls[1])))
        assert decoded.faults == ()
        assert decoded.values == outcome.topics[READINGS].records
        assert not set(decoded.source_ids) & set(decoded.target_ids)
        up.send_signal(signal.SIGTERM)
        assert up.wait(20) == 0
        ports = [int(re.findall(r":(\d+)", address)[0]) for address in (*servers, *urls)]
        assert all(is_free(port) for port in ports)
    finally:
        up.kill()


@pytest.mark.storm
@pytest.mark.integration
def test_up_secure_writes_a_pipeline_that_runs_and_holds_no_secret(tmp_path: Path) -> None:
    up = subprocess.Popen([*_UP, "--secure"], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        said = until_it_is_up(up)
        folders = [Path(found) for found in re.findall(r"^  (/\S+):$", said, re.MULTILINE)]
        passwords = [(folder / "k2k.password").read_text() for folder in folders]
        assert len(set(passwords)) == 2
        text = (tmp_path / "sandbox.yaml").read_text()
        assert not any(password in text + said for password in passwords)
        outcome = copy(load_pipeline([tmp_path / "sandbox.yaml"]))
        assert not outcome.stopped
        written = dict(re.findall(r"^  (demo\.\w+) +(\d+)$", said, re.MULTILINE))
        assert {name: str(topic.records) for name, topic in outcome.topics.items()} == written
        assert len(written) == len(SAMPLE_TOPICS)
        up.send_signal(signal.SIGTERM)
        assert up.wait(20) == 0
        assert not any(folder.exists() for folder in folders)
    finally:
        up.kill()


def test_a_file_of_the_users_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\n")
    with pytest.raises(K2KError, match="is a file of yours"):
        pipeline_file.write_pipeline_file(path, "anything")
    assert path.read_text() == "name: mine\n"


@pytest.mark.parametrize(("arguments", "variable"), [(["--kafka-version", "3.9.2"], None), ([], "3.9.2")])
def test_the_version_of_kafka_is_chosen_by_option_or_variable(
    arguments: list[str], variable: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def refusing(*_: object, version: str, **__: object) -> None:
        asked.append(version)
        raise K2KError("no clusters in this test")

    monkeypatch.setattr(sandbox, "KafkaSandbox", refusing)
    if variable:
        monkeypatch.setenv("K2K_KAFKA_VERSION", variable)
    assert run(["sandbox", "up", *arguments]) == 1
    assert asked == ["3.9.2"]
    assert run(["sandbox", "up", "--kafka-version", "1.0"]) == 2
    assert "'1.0' is not one of '4.3.1', '3.9.2'" in capsys.readouterr().err
