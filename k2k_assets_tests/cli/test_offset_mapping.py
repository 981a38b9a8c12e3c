"""`k2k-offset-mapping` as users run it: a process, signals, exit codes, output, the termination log."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from k2k_assets.cli.offset_mapping import run
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka import connection
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.brokers.groups import commit, held, member
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import write_pipeline


@pytest.fixture
def copied(clusters: KafkaSandbox, tmp_path: Path) -> tuple[Path, str]:
    """A file of a pipeline that has copied a topic, and the topic."""
    topic = kafka.create_topic(clusters.source_servers, kafka.unique("orders"))
    kafka.produce(clusters.source_servers, topic, [b"%d" % n for n in range(50)], transactional_id=kafka.unique("tx"))
    path = write_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        features={"exactlyOnce": "enabled", "offsetMapping": "enabled"},
        groups={"pollInterval": "100 milliseconds", "consumerGroups": f"{topic}-.*"},
        index={"path": str(tmp_path / "index")},
    )
    copy(load_pipeline([path]))
    return path, topic


@pytest.mark.integration
def test_once_commits_and_ends_with_a_summary(
    copied: tuple[Path, str], clusters: KafkaSandbox, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, topic = copied
    first, second = f"{topic}-one", f"{topic}-two"
    commit(clusters.source_servers, first, {TopicPartition(topic, 0): 7})
    commit(clusters.source_servers, second, {TopicPartition(topic, 0): 9}, "k2k_1.1")
    assert run(["start", "-f", str(path), "--once"]) == 0
    out = capsys.readouterr().out
    assert re.match(rf"{path.stem}: 2 groups: 1 exact, 1 translation; 1 group committed; \d+\.\d\d s\n", out)
    assert [line.split() for line in out.splitlines()[1:]] == [
        f"{first} 1 partition exact left 44 on the source 44 on the target committed".split(),
        f"{second} 1 partition translation left 42 on the source 0 on the target".split(),
    ]
    assert held(clusters.target_servers, first) == {TopicPartition(topic, 0): (7, held_version(clusters, first, topic))}

    commit(clusters.source_servers, first, {TopicPartition(topic, 0): 8})
    with member(clusters.target_servers, first, topic, "classic"):
        for how in (["--once"], []):  # `fail` ends it, also without --once
            log = tmp_path / f"termination-log{len(how)}"
            assert run(["start", "-f", str(path), "-l", str(log), *how]) == 1
            assert f"group {first} has members on the target cluster" in log.read_text()
            assert "Traceback" not in capsys.readouterr().err


@pytest.mark.integration
def test_failback_shows_writes_and_refuses(
    copied: tuple[Path, str], clusters: KafkaSandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    path, topic = copied
    group, tp = f"{topic}-one", TopicPartition(topic, 0)
    commit(clusters.source_servers, group, {tp: 7}, "app")
    commit(clusters.target_servers, group, {tp: 20})
    failback = ["failback", "-f", str(path)]

    assert run([*failback, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert f"{group}\n  {tp}: 7 -> 20  exact  (target {tp} at 20)\n1 position of 1 group would be written" in shown
    assert held(clusters.source_servers, group) == {tp: (7, "app")}

    with member(clusters.target_servers, group, topic, "classic"):
        assert run(failback) == 3
    assert "it has members on the target cluster" in capsys.readouterr().err
    assert held(clusters.source_servers, group) == {tp: (7, "app")}

    assert run(failback) == 0
    assert f"{path.stem}: 1 group written to the source, 0 already correct, 0 refused" in capsys.readouterr().out
    assert held(clusters.source_servers, group) == {tp: (20, "")}


def held_version(clusters: KafkaSandbox, group: str, topic: str) -> str:
    metadata = held(clusters.target_servers, group)[TopicPartition(topic, 0)][1]
    assert re.fullmatch(r"k2k_\d+\.\d+@\S+", metadata)
    return metadata


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_goes_on_until_a_signal_ends_it_with_0(
    copied: tuple[Path, str], clusters: KafkaSandbox, number: signal.Signals
) -> None:
    path, topic = copied
    group, at = f"{topic}-live", TopicPartition(topic, 0)
    command = [sys.executable, "-m", "k2k_assets.cli.offset_mapping", "start", "-f", str(path)]

    def is_at(position: int) -> bool:
        return held(clusters.target_servers, group).get(at, (0,))[0] == position

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            for position in (5, 20):
                commit(clusters.source_servers, group, {at: position})
                wait_until(partial(is_at, position), 150, f"position {position} on the target")
            process.send_signal(number)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert "1 group: 1 exact; 1 group committed" in err
    assert out == ""


@pytest.mark.slow
def test_faults_and_silence_have_the_codes_of_k2k_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "termination-log"
    wrong = write_pipeline(tmp_path, "s:9092", "t:9092", ".*", unheard_of={})
    assert run(["start", "-f", str(wrong), "-l", str(log)]) == 2
    assert "unheard_of" in log.read_text()
    log.unlink()
    assert run(["start", "-f", str(wrong), "-l", str(log), "-w", "disabled"]) == 2
    assert not log.exists()
    assert run(["start"]) == 2
    capsys.readouterr()
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 1.0)
    nobody = write_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ".*")
    assert run(["start", "-f", str(nobody), "-t", "-g", "enabled"]) == 3
    err = capsys.readouterr().err
    assert "cluster at 127.0.0.1:1 does not answer" in err
    assert "Traceback" not in err
