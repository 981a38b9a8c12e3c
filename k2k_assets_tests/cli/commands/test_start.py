"""`k2k start` as users run it: a process, signals, exit codes, output, the termination log."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2k_assets.cli.commands import start as start_module
from k2k_assets.cli.main import run
from k2k_assets.cli.signals import stop_on_signals
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import K2KError, Superseded
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.kafka import connection
from k2k_assets.kafka.leaders import END_UNKNOWN
from k2k_assets.permissions.topic_check import TopicCheck
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver import first_look
from k2k_assets.replication.driver.outcome import Outcome, PartitionOutcome, TopicOutcome
from k2k_assets.replication.driver.replicate import replicate_with
from k2k_assets.replication.extent import Extent
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.copies.processes import await_copied, started

EXACT = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}


@pytest.fixture
def silent_address() -> Iterator[str]:
    """An address at which nobody answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.spark
def test_once_copies_all_and_ends_with_a_summary(tmp_path: Path, clusters: KafkaSandbox) -> None:
    topic = kafka.create_topic(clusters.source_servers, kafka.unique("orders"), 2)
    kafka.produce(clusters.source_servers, topic, [(b"%d" % n, b"v%d" % n) for n in range(1000)])
    kafka.produce(clusters.source_servers, topic, [b"last"], transactional_id=kafka.unique("tx"))
    path = write_pipeline(
        tmp_path, clusters.source_servers, clusters.target_servers, [topic],
        features=EXACT, configuration={"pipelineParallelism": 2},
    )  # fmt: skip

    with started("-f", path, "--once") as process:
        out, err = process.communicate(timeout=500)

    assert process.returncode == 0, err
    assert out.startswith(f"{path.stem}: 1,001 records, ")
    assert "lag 0" in out
    assert f"{topic}: position 0 of" in err
    assert "Traceback" not in err
    assert err.count("no effect") == 1
    copied = kafka.read_all(clusters.target_servers, topic)
    assert [r.content for r in copied] == [r.content for r in kafka.read_all(clusters.source_servers, topic)]


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.spark
def test_signal_ends_it_after_a_commit_with_0(tmp_path: Path, clusters: KafkaSandbox) -> None:
    """SIGTERM; Ctrl-C is in `test_start_on_a_terminal.py`."""
    topic = kafka.create_topic(clusters.source_servers, kafka.unique("stream"))
    kafka.produce(clusters.source_servers, topic, [b"first"] * 10)
    path = write_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic], features=EXACT)

    with started("-f", path) as process:
        await_copied(process, clusters.target_servers, topic, 10)
        kafka.produce(clusters.source_servers, topic, [b"second"] * 10)
        await_copied(process, clusters.target_servers, topic, 20)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)

    assert process.returncode == 0, err
    assert "Stopping after the last commit" in err
    assert "Traceback" not in err
    assert "20 records" in out
    assert "lag 0" in out


@pytest.mark.slow
def test_source_that_does_not_answer_is_named_in_time(
    tmp_path: Path, silent_address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.5)
    path = write_pipeline(tmp_path, silent_address, "127.0.0.1:9", ["orders"])
    log = tmp_path / "termination-log"
    begin = time.monotonic()
    assert run(["start", "-f", str(path), "-l", str(log)]) == 3
    assert time.monotonic() - begin < 14, "sooner than by the usual limit"
    shown = capsys.readouterr().err
    assert f"the source cluster at {silent_address} does not answer" in shown
    assert "Traceback" not in shown
    assert log.read_text().startswith(f"the source cluster at {silent_address} does not answer")


@pytest.mark.slow
@pytest.mark.integration
def test_target_that_does_not_answer_is_named(
    tmp_path: Path,
    clusters: KafkaSandbox,
    silent_address: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 3.0)
    topic = kafka.create_topic(clusters.source_servers, kafka.unique("orders"))
    path = write_pipeline(tmp_path, clusters.source_servers, silent_address, [topic])
    assert run(["start", "-f", str(path)]) == 3
    assert f"the target cluster at {silent_address} does not answer" in capsys.readouterr().err


@pytest.mark.integration
def test_unknown_topic_and_empty_pattern_are_refused(
    tmp_path: Path, clusters: KafkaSandbox, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = kafka.create_topic(clusters.source_servers, kafka.unique("orders"))
    listed = write_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic + "x"])
    assert run(["start", "-f", str(listed)]) == 3
    assert f"'{topic}x' does not exist (did you mean '{topic}'?)" in capsys.readouterr().err
    pattern = write_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, "nothing-.*")
    assert run(["start", "-f", str(pattern)]) == 3
    assert "matches the pattern 'nothing-.*'" in capsys.readouterr().err


def test_fault_in_the_file_ends_with_2_and_is_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_pipeline(tmp_path, "s:9092", "t:9092", ".*", unheard_of={})
    log = tmp_path / "termination-log"
    assert run(["start", "-f", str(path), "--termination-log", str(log)]) == 2
    assert "unheard_of" in log.read_text()
    log.unlink()
    assert run(["start", "-f", str(path), "-l", str(log), "-w", "disabled"]) == 2
    assert not log.exists()
    assert "unheard_of" in capsys.readouterr().err


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_ends_it_at_once(tmp_path: Path, silent_address: str, number: signal.Signals) -> None:
    path = write_pipeline(tmp_path, silent_address, silent_address, ["orders"])
    with started("-f", path) as process:
        _await_handlers(process)  # before that, a signal would kill it
        process.send_signal(number)
        assert process.stderr
        assert "Stopping after" in process.stderr.readline() + process.stderr.readline()
        process.send_signal(number)
        assert process.wait(30) == 130, "one that stops in an orderly way ends with another number"


def _await_handlers(process: subprocess.Popen[str]) -> None:
    """Waits until the process catches SIGTERM and SIGINT itself, as Linux tells it."""
    wanted = (1 << (signal.SIGTERM - 1)) | (1 << (signal.SIGINT - 1))

    def caught() -> bool:
        status = Path(f"/proc/{process.pid}/status").read_text()
        mask = int(next(line for line in status.splitlines() if line.startswith("SigCgt")).split()[1], 16)
        return mask & wanted == wanted

    wait_until(caught, 120, "the signal handlers")


class PlayedEngine:
    """Stands in for Spark and the engine; the clusters are real."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, result: Outcome | Exception) -> None:
        self.calls: list[dict[str, Any]] = []
        self._result = result
        played = SimpleNamespace(replicate=self.replicate, stop=lambda: None)
        monkeypatch.setattr(start_module, "ComingSpark", lambda _: played)

    def replicate(self, extent: object, **rest: Any) -> Outcome:
        self.calls.append({"extent": type(extent).__name__, **rest})
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


@pytest.fixture
def orders(tmp_path: Path, clusters: KafkaSandbox) -> Path:
    """A pipeline over one real topic."""
    topic = kafka.create_topic(clusters.source_servers, kafka.unique("orders"))
    return write_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic])


@pytest.mark.integration
def test_stopped_topics_end_with_5_and_are_listed(
    orders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = PartitionOutcome(start=0, position=5, target_end=5, readable_end=9, records=5, bytes=50, runs=1)
    outcome = Outcome(
        {
            "a": TopicOutcome("a", {0: state}, {0: SourceDeleted("a")}, 1.0),
            "b": TopicOutcome("copy.b", {0: state, 1: state}, {}, 1.0),
        }
    )
    PlayedEngine(monkeypatch, outcome)
    assert run(["start", "-f", str(orders)]) == 5
    captured = capsys.readouterr()
    assert "1 of 2 topics stopped:\n  a: a-0: [source-deleted] the source topic a is gone. If it" in captured.err
    assert [line.split() for line in captured.out.splitlines()[1:]] == [
        ["a", "5", "records", "50", "B", "1", "offset", "range", "lag", "4", "stopped"],
        ["b", "->", "copy.b", "10", "records", "100", "B", "2", "offset", "ranges", "lag", "8"],
    ]


@pytest.mark.integration
def test_superseded_instance_ends_with_4(
    orders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    PlayedEngine(monkeypatch, Superseded("generation 7 was taken over by generation 9"))
    assert run(["start", "-f", str(orders)]) == 4
    assert "taken over by generation 9" in capsys.readouterr().err


@pytest.mark.integration
def test_engine_is_asked_for_the_extent_that_was_meant(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = PlayedEngine(monkeypatch, Outcome({}))
    assert run(["start", "-f", str(orders), "--once"]) == 0
    assert run(["start", "-f", str(orders)]) == 0
    assert [call["extent"] for call in engine.calls] == ["UntilCaughtUp", "Continuous"]


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.own_clusters
def test_clusters_are_waited_for_where_that_is_wanted(
    tmp_path: Path, clusters: KafkaSandbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(start_module, "_RETRY_SECONDS", 0.1)
    topic = kafka.create_topic(clusters.source_servers, kafka.unique("orders"))
    features = {"checkKafkaConnectionOnStartup": "disabled"}
    path = write_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic], features=features)
    engine = PlayedEngine(monkeypatch, Outcome({}))
    clusters.target.stop()
    assert run(["start", "-f", str(path), "--once"]) == 3, "an end is waited for, so the answer cannot wait"

    def waits() -> bool:
        return any("Waiting (features.checkKafkaConnectionOnStartup" in line for line in caplog.messages)

    def bring_back() -> None:
        wait_until(waits, 120, "a cluster to be waited for")
        clusters.target.start()

    with caplog.at_level("WARNING", "k2k.cli"), ThreadPoolExecutor(1) as pool:
        back = pool.submit(bring_back)
        assert run(["start", "-f", str(path)]) == 0
        back.result()
    assert [call["extent"] for call in engine.calls] == ["Continuous"]


@pytest.mark.slow
def test_two_clusters_that_do_not_answer_are_told_together(
    tmp_path: Path, silent_address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 1.0)
    path = write_pipeline(tmp_path, silent_address, "127.0.0.1:9", ["orders"])
    assert run(["start", "-f", str(path)]) == 3
    said = capsys.readouterr().err
    assert f"the source cluster at {silent_address} does not answer" in said
    assert "the target cluster at 127.0.0.1:9 does not answer" in said


@pytest.mark.integration
def test_signal_before_the_engine_starts_ends_it_with_0(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = PlayedEngine(monkeypatch, Outcome({}))
    events: list[threading.Event] = []

    @contextmanager
    def remembered(_: object) -> Iterator[threading.Event]:
        with stop_on_signals() as stop:
            events.append(stop)
            yield stop

    def signalled(_: object) -> SimpleNamespace:
        os.kill(os.getpid(), signal.SIGTERM)
        assert events[0].wait(5)
        return SimpleNamespace(stop=lambda: None)

    monkeypatch.setattr("k2k_assets.cli.commands.start.stop_on_signals", remembered)
    monkeypatch.setattr(start_module, "ComingSpark", signalled)
    assert run(["start", "-f", str(orders)]) == 0
    assert engine.calls == []


@pytest.mark.integration
@pytest.mark.parametrize("features", [{}, {"checkKafkaConnectionOnStartup": "disabled"}], ids=["at once", "waits"])
def test_topics_are_resolved_and_permissions_checked_once_before_the_first_record(
    tmp_path: Path, clusters: KafkaSandbox, features: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create_topic(clusters.source_servers, kafka.unique("orders"))
    features = {"autoCreateTopics": "enabled", **features}
    path = write_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic], features=features)
    asked: list[str] = []

    def noted(where: object, name: str) -> None:
        asks = getattr(where, name)

        def ask(*arguments: Any, **named: Any) -> Any:
            asked.append(name)
            return asks(*arguments, **named)

        monkeypatch.setattr(where, name, ask)

    noted(first_look, "resolve_topics")
    noted(TopicCheck, "before_creation")
    noted(TopicCheck, "after_creation")

    class Unusable:
        """Spark that never comes: by then all is prepared."""

        def __init__(self, pipeline: Pipeline) -> None:
            self._pipeline = pipeline

        def replicate(self, extent: Extent, **rest: Any) -> Outcome:
            return replicate_with(lambda _: [], 1, self._pipeline, extent, **rest, await_runner=self.stop)

        def stop(self) -> None:
            asked.append("spark")
            if asked.count("spark") == 1:
                raise K2KError("there is no Spark")

    monkeypatch.setattr(start_module, "ComingSpark", Unusable)
    assert run(["start", "-f", str(path), "-w", "disabled"]) == 1
    assert asked == ["resolve_topics", "before_creation", "after_creation", "spark", "spark"]


LEFT = PartitionOutcome(start=0, position=5, target_end=5, readable_end=9, records=5, bytes=50, runs=1)
DONE = replace(LEFT, position=9)
EMPTY = replace(LEFT, position=0, readable_end=0)
NOT_ASKED = replace(EMPTY, readable_end=END_UNKNOWN)


def _copied(*states: PartitionOutcome, stopped: StopReason | None = None) -> Outcome:
    return Outcome({"a": TopicOutcome("a", dict(enumerate(states)), {0: stopped} if stopped else {}, 1.0)})


@pytest.mark.parametrize(
    ("outcome", "code", "said"),
    [
        (None, 6, "stopped by a signal before the copy began"),
        (_copied(LEFT, DONE), 6, "stopped by a signal before it had caught up: lag 4;"),
        (_copied(NOT_ASKED), 6, "stopped by a signal before it was known how much there is to copy"),
        (Outcome({}), 6, "stopped by a signal before it was known how much there is to copy"),
        (_copied(LEFT, stopped=SourceDeleted("a")), 5, "1 of 1 topic stopped"),
        (_copied(DONE, NOT_ASKED), 6, "stopped by a signal before it was known how much there is to copy"),
        (_copied(DONE, EMPTY), 0, ""),
    ],
)
def test_once_that_is_signalled_ends_with_0_only_if_nothing_is_left(
    outcome: Outcome | None,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write_pipeline(tmp_path, "127.0.0.1:9", "127.0.0.1:9", ["a"])
    monkeypatch.setattr(start_module, "ComingSpark", lambda _: SimpleNamespace(stop=lambda: None))
    monkeypatch.setattr(start_module, "_looked_at", nullcontext)
    signalled = True

    def played(
        _spark: object, _look: object, _console: object, _once: bool, stop: threading.Event, _listener: object
    ) -> Outcome | None:
        if signalled:
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop.wait(5)
        return outcome

    monkeypatch.setattr(start_module, "_replicate", played)
    assert run(["start", "-f", str(path), "--once", "-w", "disabled"]) == code
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Error:")]
    assert len(errors) == (code > 0)
    assert said in "".join(errors)
    if code == 6:
        assert run(["start", "-f", str(path), "-w", "disabled"]) == 0, "without --once there is no end to reach"
        signalled = False
        assert run(["start", "-f", str(path), "--once", "-w", "disabled"]) == 0, "the source goes on meanwhile"
