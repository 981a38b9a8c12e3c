"""`k2k status`: the screen, the JSON, and `--watch`. Tests of `status` cover the reading."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.live import Live

from k2k_assets.cli.commands.status_screen import LiveScreen, behind, sparkline, status_screen
from k2k_assets.cli.main import run
from k2k_assets.cli.suggestions import remember_files
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.stops.reasons.source_log import RecordsDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.status import copy_reader
from k2k_assets.status.copy_status import CopiedTopic, CopyStatus, MovedGroup, MovedGroups
from k2k_assets.status.document import status_document
from k2k_assets.status.lag import PartitionLag, TotalLag
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.copies.pipelines import make_pipeline, write_pipeline

NOW = 1_700_000_000_000
PAGE = Path(__file__).parents[3] / "docs" / "status.md"


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return make_pipeline(tmp_path, "s:9092", "t:9092", ".*", features={"exactlyOnce": "enabled"})


CAUGHT_UP = PartitionLag(5, 5, 0.0)
AT_NINE = {TopicPartition("busy", 0): 9}


def topic(name: str, lag: PartitionLag = CAUGHT_UP, copied: int = 0, **more: Any) -> CopiedTopic:
    return CopiedTopic(name, f"copy.{name}", {0: lag}, more.get("stopped", {}), NOW - 1500, copied / 60, [0, copied])


STOPPED = topic("lost", PartitionLag(5, 90, None), stopped={0: RecordsDeleted.example()})
STATUS = CopyStatus(
    NOW,
    [
        topic("archive"),
        topic("busy", PartitionLag(5, 105, 2.5), copied=600),
        topic("customers"),
        topic("late", PartitionLag(5, 6, 4000.0)),
        STOPPED,
    ],
    MovedGroups(tuple(MovedGroup(name, AT_NINE, {} if name == "c" else AT_NINE) for name in "abc")),
)


def shown(pipeline: Pipeline, status: CopyStatus, height: int | None = None, width: int = 200) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(status_screen(pipeline, status, height))
    return console.export_text().splitlines()


def test_what_is_stopped_comes_first_with_its_remedy_then_who_is_farthest_behind(pipeline: Pipeline) -> None:
    remember_files("-f", [Path("my orders.yaml")])
    lines = shown(pipeline, STATUS)
    text = "\n".join(lines)
    assert "exactly once  s:9092 -> t:9092" in lines[0]
    assert lines[1].split(", ") == [
        "10 records/s",
        "1 h 6 min or more behind",
        "lag 186",
        "last commit 1.5 s ago",
        "2 of 3 groups on the target",
    ]
    order = [text.index(word) for word in ("stopped: lost-0 [records-deleted]", "topic ", "late -> ", "busy -> ")]
    assert order == sorted(order)
    assert "k2k-tool set -f 'my orders.yaml' -o" in text
    assert lines[-1] == "quiet, nothing left to copy: 2 topics (archive, customers)"


def test_many_topics_fit_into_the_terminal(pipeline: Pipeline) -> None:
    topics = [topic(f"t{n:03}", PartitionLag(0, n + 1, float(n))) for n in range(100)]
    lines = shown(pipeline, CopyStatus(NOW, [*topics, *map(topic, "abcdefghijklmnopqrstuvwxyz")], None), 24, 80)
    assert len(lines) <= 24
    assert any("and 84 more topics" in line for line in lines)
    assert lines[-1].endswith("…")


def test_many_stopped_partitions_are_counted(pipeline: Pipeline) -> None:
    reasons = {p: RecordsDeleted(TopicPartition("lost", p), 5, 9) for p in range(12)}
    lost = CopiedTopic("lost", "lost", dict.fromkeys(range(12), PartitionLag(5, 9, 1.0)), reasons, NOW, 0, [0])
    lines = shown(pipeline, CopyStatus(NOW, [lost], None))
    assert sum(line.startswith("stopped: ") for line in lines) == 10
    assert "and 2 more partitions stopped" in lines


def test_nothing_at_all_is_said(pipeline: Pipeline) -> None:
    assert "no topic of the source is selected" in shown(pipeline, CopyStatus(NOW, [], None))


def test_numbers_in_words() -> None:
    assert sparkline([0, 1, 50, 100]) == "▁▂▅█"
    assert sparkline([0, 0]) == "▁▁"
    assert [behind(lag) for lag in (TotalLag(0, 0.0, 0), TotalLag(0, None, 2), TotalLag(0, None, 0))] == [
        "0 s",
        "unknown",
        "0 s",
    ]


def test_the_json_has_the_keys_that_are_documented(pipeline: Pipeline) -> None:
    document = status_document(pipeline, STATUS)
    assert json.loads(json.dumps(document)) == document
    assert document["time"] == "2023-11-14T22:13:20.000Z"
    assert (document["delivery"], document["lag"], document["partitionsUnknown"]) == ("exactly-once", 186, 1)
    assert document["groups"] == {"selected": 3, "onTarget": 2, "unknown": None}
    lost = document["topics"][-1]
    stopped = lost["partitions"][0]["stopped"]
    assert stopped is not None
    assert (lost["state"], stopped["code"]) == ("stopped", "records-deleted")
    documented = set(re.findall(r"`(\w+)`", PAGE.read_text().split("\n## JSON\n")[1]))
    assert _keys(document) - documented == set()


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {*value, *(key for item in value.values() for key in _keys(item))}
    return {key for item in value for key in _keys(item)} if isinstance(value, list) else set()


class PlayedReader:
    """Looks that were prepared; the last one is followed by Ctrl-C."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: CopyStatus | Exception) -> None:
        self.looks = list(looks)
        self.made = 0
        monkeypatch.setattr(copy_reader, "CopyReader", self)
        monkeypatch.setattr("k2k_assets.cli.commands.status.time.sleep", lambda _: None)

    def __call__(self, *_: object) -> PlayedReader:
        self.made += 1
        return self

    def __enter__(self) -> PlayedReader:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(self) -> CopyStatus:
        if not self.looks:
            os.kill(os.getpid(), signal.SIGTERM)
        look = self.looks.pop(0)
        if isinstance(look, Exception):
            raise look
        return look


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(write_pipeline(tmp_path, "s:9092", "t:9092", ".*"))


def test_one_look_is_printed(file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    PlayedReader(monkeypatch, STATUS, STATUS)
    assert run(["status", "-f", file]) == 0
    assert f"k2k-tool set -f {file}" in capsys.readouterr().out.replace("\n  ", " ")
    assert run(["status", "-f", file, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["topics"]) == 5


def test_a_silent_cluster_ends_one_look_with_3_and_the_first_of_many(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = ClusterUnreachable("the source cluster does not answer")
    PlayedReader(monkeypatch, silent, silent)
    assert run(["status", "-f", file]) == 3
    assert run(["status", "-f", file, "--watch"]) == 3
    assert capsys.readouterr().err.count("the source cluster does not answer") == 2


def test_watching_waits_for_a_cluster_and_ends_with_0(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = PlayedReader(monkeypatch, STATUS, ClusterUnreachable("the source cluster does not answer"), STATUS)
    assert run(["status", "-f", file, "--watch", "--json"]) == 0
    said = capsys.readouterr()
    assert [json.loads(line)["lag"] for line in said.out.splitlines()] == [186, 186]
    assert said.err == "the source cluster does not answer\n"
    assert reader.made == 2, "after an error nothing is taken from memory"


def test_a_screen_in_place_keeps_what_it_showed_when_a_cluster_is_away(pipeline: Pipeline) -> None:
    console = Console(width=160, height=40, file=io.StringIO(), force_terminal=True)
    drawn: Callable[[CopyStatus, int], Any] = lambda found, height: status_screen(pipeline, found, height)  # noqa: E731
    with Live(console=console, auto_refresh=False) as live:
        screen = LiveScreen(live, drawn)
        screen.show(STATUS)
        for words in ("first", "second"):
            screen.tell(ClusterUnreachable(words))
        end = Console(width=160, file=io.StringIO(), record=True)
        end.print(live.get_renderable())
    text = end.export_text()
    assert "busy" in text
    assert "waiting: second" in text
    assert "first" not in text


@pytest.mark.integration
def test_watching_a_real_pipeline_ends_cleanly_with_ctrl_c(tmp_path: Path, clusters: KafkaSandbox) -> None:
    topic = kafka.create_topic(clusters.source_servers, kafka.unique("watched"))
    kafka.produce(clusters.source_servers, topic, [b"v"] * 10)
    path = write_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic])
    command = [sys.executable, "-m", "k2k_assets.cli.main", "status", "-f", str(path), "--watch", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        looks = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert err == ""
    assert [look["lag"] for look in looks] == [10, 10]
    assert [look["topics"][0]["state"] for look in looks] == ["not begun"] * 2
