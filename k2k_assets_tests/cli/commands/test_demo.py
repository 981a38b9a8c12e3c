"""`k2k demo` as users run it: its summary is true, and no process outlives it."""

from __future__ import annotations

import http.client
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from k2k_assets.demo.groups import GROUPS
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.broker_settings import is_free
from k2k_assets.sandbox.readings import READINGS
from k2k_assets.sandbox.registry import SandboxRegistry
from k2k_assets.sandbox.traffic import SAMPLE_TOPICS, sample_topics, write_sample_traffic
from k2k_assets.verification.mapping_checks import CHECKS
from k2k_assets_tests.support.brokers import kafka

README = Path(__file__).parents[3] / "README.md"
_DEMO = [sys.executable, "-m", "k2k_assets.cli.main", "demo"]
_ROW = re.compile(r"^(demo\.\w+)((?: +[\d,]+){5}) +([\d.]+)$", re.MULTILINE)
_STEP = re.compile(r"^ +[\d.]+ s  (.+)$", re.MULTILINE)
_CHECK = re.compile(r"^  (passed|warned|failed)  (\w+)  ", re.MULTILINE)
_GROUP = re.compile(
    r"^  passed  (demo-\w+) +(\d+) exact: ([\d,]+) read on the source, ([\d,]+) unread; ([\d,]+) read on the target, "
    r"skipped 0, read again 0$",
    re.MULTILINE,
)

_DECODED = re.compile(
    r"^  passed  demo\.readings  ([\d,]+) values: schemas (\d+, \d+) of the source are (\d+, \d+)$", re.MULTILINE
)

pytestmark = [pytest.mark.integration, pytest.mark.spark]


class Shown(NamedTuple):
    """The numbers of one line of the summary."""

    records: int
    bytes: int
    source_end: int
    target_end: int
    runs: int


def _shown(text: str) -> dict[str, Shown]:
    return {
        topic: Shown(*(int(number.replace(",", "")) for number in numbers.split()))
        for topic, numbers, _ in _ROW.findall(text)
    }


def _assert_groups(text: str, truth: dict[str, tuple[int, int, int]]) -> None:
    """Each group has read on the source and on the target together what there is, and one of them has a lag."""
    found = {
        name: (int(partitions), *(int(number.replace(",", "")) for number in numbers))
        for name, partitions, *numbers in _GROUP.findall(text)
    }
    assert set(found) == {group.name for group in GROUPS}, text
    for group in GROUPS:
        partitions, read, unread, resumed = found[group.name]
        assert partitions == {topic.name: topic.partitions for topic in SAMPLE_TOPICS}[group.topic]
        assert (read + unread, unread) == (truth[group.topic][0], resumed)
        assert (unread > 0) == (group.records is not None)


def _assert_decoded(text: str, truth: dict[str, tuple[int, int, int]]) -> None:
    """All values with schemas, whose ids the target's registry has changed."""
    ((values, source, target),) = _DECODED.findall(text)
    assert int(values.replace(",", "")) == truth[READINGS][0]
    assert len(source.split(", ")) == len(target.split(", ")) == 2
    assert not set(source.split(", ")) & set(target.split(", "))


@pytest.fixture(scope="module")
def truth(
    clusters: KafkaSandbox, registries: tuple[SandboxRegistry, SandboxRegistry]
) -> dict[str, tuple[int, int, int]]:
    """Records, bytes of values and end offsets of the sample topics, read by the tests' own means."""
    found = {}
    registry = registries[0].url
    write_sample_traffic(clusters.source_servers, registry=registry)
    for topic in sample_topics(registry):
        records = kafka.read_all(clusters.source_servers, topic.name)
        ends = kafka.end_offsets(clusters.source_servers, topic.name)
        found[topic.name] = len(records), sum(len(r.value or b"") for r in records), sum(ends.values())
        kafka.delete_topic(clusters.source_servers, topic.name)
    return found


@pytest.mark.slow
def test_the_summary_is_the_truth(truth: dict[str, tuple[int, int, int]]) -> None:
    ended = subprocess.run(_DEMO, capture_output=True, text=True, timeout=800, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stderr == ""
    rows = _shown(ended.stdout)
    _assert_counts(rows, truth)
    for topic, row in rows.items():
        assert (row.runs > 0) == (row.records > 0), topic
        # Each commit takes one offset on each partition that it touched.
        assert row.target_end > row.records or row.records == 0, topic
    assert _CHECK.findall(ended.stdout) == [("passed", check) for check in ("copies_on", "as_configured", *CHECKS)]
    total = sum(records for records, _, _ in truth.values())
    assert f"{total:,} records written and committed on the source, {total:,} copied." in ended.stdout
    _assert_groups(ended.stdout, truth)
    _assert_decoded(ended.stdout, truth)
    _assert_stopped(ended.stdout)
    assert _story(README.read_text(encoding="utf-8")) == _story(ended.stdout)


def _assert_counts(rows: dict[str, Shown], truth: dict[str, tuple[int, int, int]]) -> None:
    """Bytes are those of batches: some around each record, or less where they are compressed."""
    assert {topic: (row.records, row.source_end) for topic, row in rows.items()} == {
        topic: (records, end) for topic, (records, _, end) in truth.items()
    }
    for topic, (records, size, _) in truth.items():
        assert rows[topic].bytes <= size + 100 * records, topic
        assert (rows[topic].bytes > 0) == (records > 0), topic


def _story(text: str) -> list[str]:
    """The steps, the verdicts and the closing words, without what differs from run to run."""
    steps = [re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", step) for step in _STEP.findall(text)]
    (closing,) = re.findall(r"^[\d,]+ records written and committed .*$", text, re.MULTILINE)
    return [*steps, *map(" ".join, _CHECK.findall(text)), closing]


@pytest.mark.slow
def test_the_readme_shows_what_it_prints(truth: dict[str, tuple[int, int, int]]) -> None:
    text = README.read_text(encoding="utf-8")
    _assert_counts(_shown(text), truth)
    _assert_groups(text, truth)
    _assert_decoded(text, truth)


@pytest.mark.storm
@pytest.mark.parametrize("after", [" run: source", "Dagster has loaded"])
def test_interrupted_it_leaves_nothing(after: str) -> None:
    with _running() as process:
        said = _read_until(process, after)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=90)
    # A signal in the middle of `exec` (which makes dataclasses) ends CPython, even if code would catch it.
    assert process.returncode in (130, -signal.SIGINT), rest + errors
    assert errors.strip() == "Interrupted: everything is stopped."
    assert psutil.wait_procs(children, timeout=20)[1] == []
    _assert_stopped(said)


@pytest.mark.slow
def test_the_ui_answers_and_everything_ends_with_it() -> None:
    with _running("--ui") as process:
        said = _read_until(process, "Ctrl-C stops everything")
        address = re.search(r"http://(127\.0\.0\.1:\d+)", said)
        assert address
        connection = http.client.HTTPConnection(address[1], timeout=20)
        connection.request("GET", "/server_info")
        assert connection.getresponse().status == 200
        connection.close()
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=90)
    assert process.returncode == 0, rest + errors
    assert psutil.wait_procs(children, timeout=20)[1] == []
    assert is_free(int(address[1].partition(":")[2]))
    _assert_stopped(said)


@contextmanager
def _running(*options: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([*_DEMO, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _read_until(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdout
    assert process.stderr
    said = ""
    while words not in said:
        line = process.stdout.readline()
        assert line, said + process.stderr.read()
        said += line
    return said


def _assert_stopped(said: str) -> None:
    servers = re.findall(r"(?:source|target) 127\.0\.0\.1:(\d+)", said)
    assert len(servers) == 2
    assert [port for port in servers if not is_free(int(port))] == []
