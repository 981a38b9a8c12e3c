"""Functions of users that hang or end their process, on real clusters: stops, ends, and nothing is lost."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from k2k_assets.cli.main import run as k2k
from k2k_assets.cli.tool import run as k2k_tool
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.stops.reasons.functions import FunctionEndsItsProcess, FunctionTooSlow
from k2k_assets.core.stops.reasons.records import TransformFailed
from k2k_assets.core.stops.reasons.unusable_functions import FunctionCannotBeLoaded, FunctionKeepsCrashing
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.functions import child
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, topics, unique
from k2k_assets_tests.support.copies.copying import Running, commit_records, copy, dying_first, in_processes
from k2k_assets_tests.support.copies.pipelines import MODES, of_small_transactions
from k2k_assets_tests.support.copies.transformed import assert_transformed, transforming
from k2k_assets_tests.support.copies.unruly import correct, function_beside, through_upper, topic_of_slot

pytestmark = pytest.mark.integration


def unruly(
    clusters: KafkaSandbox, directory: Path, names: list[str], mode: str,
    rule: dict[str, Any] | None = None, at_import: str = "", **rest: Any,
) -> tuple[Path, Pipeline, str]:  # fmt: skip
    """A pipeline whose function is called for the first of its topics, with file and function."""
    function = function_beside(directory, at_import)
    rules = [{"pattern": names[0], "python": function, **(rule or {})}]
    path, pipeline = transforming(clusters, directory, names, mode, rules, **rest)
    return path, pipeline, function


def positions(clusters: KafkaSandbox, pipeline: Pipeline, topic: str) -> int:
    return [r.position for r in commit_records(pipeline, clusters.target_servers) if r.source.topic == topic][-1]


def values(count: int, **at: bytes) -> list[bytes]:
    """Values, with others at some places: `at_3=b"exit"`."""
    made = [b"value %d" % n for n in range(count)]
    for place, value in at.items():
        made[int(place.removeprefix("at_"))] = value
    return made


@MODES
@pytest.mark.parametrize("way", ["exit", pytest.param("segfault", marks=pytest.mark.slow)])
def test_a_function_that_ends_its_process_stops_its_topic_at_the_record_and_no_other(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, way: str
) -> None:
    """One slot copies both topics."""
    topic, other = (create_topic(clusters.source_servers, unique("orders"), 1) for _ in range(2))
    path, pipeline, function = unruly(clusters, tmp_path, [topic, other], mode)
    written = produce(clusters.source_servers, topic, values(60, at_37=way.encode()))
    produce(clusters.source_servers, other, values(60))
    outcome = copy(pipeline, cores=1)
    reason = outcome.stopped[topic][0]
    assert isinstance(reason, FunctionEndsItsProcess)
    assert (reason.source, reason.offset) == (TopicPartition(topic, 0), written[37][1])
    assert (reason.rule, reason.function) == ("transform[0].python", function)
    assert reason.words == {"exit": "exit code 3", "segfault": "SIGSEGV"}[way]
    assert outcome.stopped.keys() == {topic}
    assert [r.value for r in read_all(clusters.target_servers, topic)] == [b"VALUE %d" % n for n in range(37)]
    assert [r.value for r in read_all(clusters.target_servers, other)] == values(60)
    assert positions(clusters, pipeline, topic) == written[37][1]

    correct(tmp_path, function)
    pipeline = load_pipeline([path])
    assert copy(pipeline).stopped == {}
    assert assert_transformed(clusters, pipeline, topic, through_upper) == 0


@MODES
@pytest.mark.parametrize("way", ["sleep", "search"])
def test_a_function_that_does_not_return_in_time_stops_its_topic_and_no_other(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, other = (create_topic(clusters.source_servers, unique("orders"), 1) for _ in range(2))
    limit = {"functionTimeout": "6 seconds"}
    path, pipeline, function = unruly(clusters, tmp_path, [topic, other], mode, limit)
    produce(clusters.source_servers, topic, values(20))
    assert copy(pipeline, cores=1).stopped == {}
    written = produce(clusters.source_servers, topic, values(20, at_7=way.encode()))
    produce(clusters.source_servers, other, values(60))
    outcome = copy(pipeline, cores=1)
    reason = outcome.stopped[topic][0]
    assert isinstance(reason, FunctionTooSlow)
    assert (reason.source, reason.seconds) == (TopicPartition(topic, 0), 6.0)
    assert written[0][1] <= reason.offset <= written[7][1] <= reason.last <= written[-1][1]
    assert f"upper ({function.partition(':')[0]}.py:" in reason.place
    assert outcome.stopped.keys() == {topic}
    assert [r.value for r in read_all(clusters.target_servers, other)] == values(60)
    assert len(read_all(clusters.target_servers, topic)) == 20 + reason.offset - written[0][1]

    # The usual remedy goes on behind these records, or a corrected function with them.
    say = f"{topic}:0:{reason.last + 1}"
    assert k2k_tool(["set", "-f", str(path), "-o", say, "--reason", "a test", "--dry-run"]) == 0
    correct(tmp_path, function)
    pipeline = load_pipeline([path])
    assert copy(pipeline).stopped == {}
    assert assert_transformed(clusters, pipeline, topic, through_upper) == 0


@MODES
@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("raise", "ModuleNotFoundError: No module named 'no_such_module_of_a_user'"),
        pytest.param("exit", "its process ended 3 times in a row (exit code 3)", marks=pytest.mark.slow),
        ("segfault", "its process ended 3 times in a row (SIGSEGV)"),
    ],
)
def test_a_module_that_cannot_be_imported_stops_its_topics_and_no_other(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, way: str, words: str
) -> None:
    """One slot copies both topics; neither this process nor the slot imports the module."""
    topic, other = (create_topic(clusters.source_servers, unique("orders"), 1) for _ in range(2))
    path, pipeline, function = unruly(clusters, tmp_path, [topic, other], mode, at_import=way)
    written = produce(clusters.source_servers, topic, values(20))
    produce(clusters.source_servers, other, values(60))
    outcome = copy(pipeline, cores=1)
    reason = outcome.stopped[topic][0]
    assert isinstance(reason, FunctionCannotBeLoaded)
    assert (reason.source, reason.offset) == (TopicPartition(topic, 0), written[0][1])
    module = function.partition(":")[0]
    assert (reason.function, reason.words) == (function, f"the module {module} cannot be imported: {words}")
    assert outcome.stopped.keys() == {topic}
    assert read_all(clusters.target_servers, topic) == []
    assert [r.value for r in read_all(clusters.target_servers, other)] == values(60)
    assert module not in sys.modules

    assert k2k(["validate", "-f", str(path)]) == 3
    correct(tmp_path, function)
    assert k2k(["validate", "-f", str(path)]) == 0
    pipeline = load_pipeline([path])
    assert copy(pipeline).stopped == {}
    assert assert_transformed(clusters, pipeline, topic, through_upper) == 0
    assert module not in sys.modules


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("way", ["sleep", pytest.param("search", marks=pytest.mark.storm)])
def test_a_copy_ends_in_time_while_an_import_hangs_and_other_topics_are_copied(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Slot 0 has both topics. What it has read of the other one is committed while it waits for the import."""
    topic, other = topic_of_slot(clusters, 0), topic_of_slot(clusters, 0)
    apart = topic_of_slot(clusters, 1)
    path, pipeline, function = unruly(clusters, tmp_path, [topic, other, apart], mode, at_import=way)
    produce(clusters.source_servers, topic, values(20))
    for each in (other, apart):
        produce(clusters.source_servers, each, values(50))
    with caplog.at_level(logging.WARNING):
        running = Running(pipeline, 2)
        wait_until(lambda: "has been running for" in caplog.text, 120, "a warning")
        assert f"{function} has been running for" in caplog.text
        assert "the import of its module" in caplog.text
        produce(clusters.source_servers, apart, values(50))
        wait_until(lambda: len(read_all(clusters.target_servers, apart)) == 100, 120, "the other slot to copy on")
        running.end()
    assert children_of_functions() == []
    assert len(read_all(clusters.target_servers, topic)) == 0

    correct(tmp_path, function)
    pipeline = load_pipeline([path])
    assert copy(pipeline).stopped == {}
    assert assert_transformed(clusters, pipeline, topic, through_upper) == 0
    assert [r.value for r in read_all(clusters.target_servers, other)] == values(50)


@pytest.mark.storm
@MODES
def test_an_import_that_does_not_end_stops_its_topics_and_no_other(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    """Both topics of the rule wait for one minute together, not for one each."""
    one, two, other = (create_topic(clusters.source_servers, unique("orders"), 1) for _ in range(3))
    rule = {"pattern": f"{one}|{two}", "functionTimeout": "2 seconds"}
    path, pipeline, function = unruly(clusters, tmp_path, [one, two, other], mode, rule, at_import="sleep")
    for each in (one, two, other):
        produce(clusters.source_servers, each, values(20))
    began = time.monotonic()
    outcome = copy(pipeline, cores=1)
    assert time.monotonic() - began < 110
    assert outcome.stopped.keys() == {one, two}
    for topic in (one, two):
        reason = outcome.stopped[topic][0]
        assert isinstance(reason, FunctionTooSlow)
        assert (reason.seconds, reason.function) == (60.0, function)
        assert reason.place.endswith("the import of its module")
        assert read_all(clusters.target_servers, topic) == []
    assert [r.value for r in read_all(clusters.target_servers, other)] == values(20)
    correct(tmp_path, function)
    pipeline = load_pipeline([path])
    assert copy(pipeline).stopped == {}
    for topic in (one, two):
        assert assert_transformed(clusters, pipeline, topic, through_upper) == 0


@MODES
def test_headers_that_are_no_text_stop_their_topic_and_no_other(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    """Reading them raises; it is an error of the function, which its process tells."""
    topic, other = (create_topic(clusters.source_servers, unique("orders"), 1) for _ in range(2))
    path, pipeline, function = unruly(clusters, tmp_path, [topic, other], mode)
    written = produce(clusters.source_servers, topic, values(20, at_7=b"no text"))
    produce(clusters.source_servers, other, values(60))
    outcome = copy(pipeline, cores=1)
    reason = outcome.stopped[topic][0]
    assert isinstance(reason, TransformFailed)
    assert reason.offset == written[7][1]
    assert "a column headers that is not valid" in reason.words
    assert outcome.stopped.keys() == {topic}
    assert [r.value for r in read_all(clusters.target_servers, topic)] == [b"VALUE %d" % n for n in range(7)]
    assert [r.value for r in read_all(clusters.target_servers, other)] == values(60)
    correct(tmp_path, function)
    pipeline = load_pipeline([path])
    assert copy(pipeline).stopped == {}
    assert assert_transformed(clusters, pipeline, topic, through_upper) == 0


@MODES
def test_a_function_that_ends_its_process_each_second_time_stops_its_topic(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    """No record is the reason: tried again, each passes."""
    topic, other = (create_topic(clusters.source_servers, unique("orders"), 1) for _ in range(2))
    of_one = of_small_transactions(1)
    path, pipeline, function = unruly(clusters, tmp_path, [topic, other], mode, **of_one)
    written = [at for n in range(60) for at in produce(clusters.source_servers, topic, [b"often %d" % n])]
    produce(clusters.source_servers, other, values(60))
    outcome = copy(pipeline, cores=1)
    reason = outcome.stopped[topic][0]
    assert isinstance(reason, FunctionKeepsCrashing)
    assert (reason.times, reason.minutes, reason.words) == (20, 10, "exit code 9")
    assert written[0][1] < reason.offset <= written[30][1]
    assert positions(clusters, pipeline, topic) == reason.offset
    assert outcome.stopped.keys() == {topic}
    assert len(read_all(clusters.target_servers, topic)) == reason.offset - written[0][1]
    assert [r.value for r in read_all(clusters.target_servers, other)] == values(60)

    correct(tmp_path, function)
    pipeline = load_pipeline([path])
    assert copy(pipeline).stopped == {}
    assert assert_transformed(clusters, pipeline, topic, through_upper) == 0


def children_of_functions() -> list[psutil.Process]:
    """The processes of functions below this one."""
    return [p for p in psutil.Process().children(recursive=True) if child.__name__ in " ".join(cmdline(p))]


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("way", ["sleep", pytest.param("search", marks=pytest.mark.storm)])
def test_a_copy_ends_in_time_while_a_function_hangs_and_other_slots_go_on_meanwhile(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic, other = topic_of_slot(clusters, 0), topic_of_slot(clusters, 1)
    path, pipeline, function = unruly(clusters, tmp_path, [topic, other], mode)
    produce(clusters.source_servers, topic, values(20))
    with caplog.at_level(logging.WARNING):
        running = Running(pipeline, 2)
        running.await_copied(20)
        written = produce(clusters.source_servers, topic, values(20, at_7=way.encode()))
        wait_until(lambda: "has been running for" in caplog.text, 120, "a warning")
        assert f"{function} has been running for" in caplog.text
        assert f"on {topic}-0, offsets " in caplog.text
        before = running.copied()
        produce(clusters.source_servers, other, values(50))
        running.await_copied(before + 50)
        began = time.monotonic()
        running.end()
        assert time.monotonic() - began < 120
    assert "was ended after" in caplog.text
    assert children_of_functions() == []
    last = [r for r in commit_records(pipeline, clusters.target_servers) if r.source.topic == topic][-1]
    assert last.kind == "release"
    assert last.reason is None
    assert last.position <= written[7][1]

    correct(tmp_path, function)
    pipeline = load_pipeline([path])
    assert copy(pipeline).stopped == {}
    assert assert_transformed(clusters, pipeline, topic, through_upper) == 0
    assert [r.value for r in read_all(clusters.target_servers, other)] == values(50)


@MODES
def test_other_topics_of_the_slot_are_copied_on_while_a_function_hangs(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    """Much has arrived of the function's own topic, which is not copied; once corrected, each record is, in order."""
    topic, other = topic_of_slot(clusters, 0, 1), topic_of_slot(clusters, 0, 1)
    path, pipeline, function = unruly(clusters, tmp_path, [topic, other], mode)
    running = Running(pipeline, 1)
    produce(clusters.source_servers, other, values(10))
    running.await_copied(10)
    hanging = produce(clusters.source_servers, topic, values(5000, at_7=b"sleep"))
    wait_until(lambda: children_of_functions() != [] or running.error, 120, "the function to be called")
    for more in range(3):
        produce(clusters.source_servers, other, values(20))
        expected = 10 + 20 * (more + 1)
        wait_until(lambda: len(read_all(clusters.target_servers, other)) >= expected, 120, "the other topic")  # noqa: B023
    hangs = positions(clusters, pipeline, topic)
    assert hangs <= hanging[7][1]
    running.end()
    assert children_of_functions() == []

    correct(tmp_path, function)
    pipeline = load_pipeline([path])
    assert copy(pipeline).stopped == {}
    assert assert_transformed(clusters, pipeline, topic, through_upper) == 0
    assert [r.value for r in read_all(clusters.target_servers, other)] == [*values(10), *values(20) * 3]


@pytest.mark.slow
@MODES
def test_a_slow_function_and_the_other_topics_of_its_slot_both_get_on(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    """Each of its calls takes longer than the source is left as it is: it is made to read the others, and all again."""
    topic, other = topic_of_slot(clusters, 0, 1), topic_of_slot(clusters, 0, 1)
    path, pipeline, _ = unruly(clusters, tmp_path, [topic, other], mode, **of_small_transactions(10))
    running = Running(pipeline, 1)
    for _ in range(3):
        produce(clusters.source_servers, topic, values(10, at_3=b"wait 3"))
        produce(clusters.source_servers, other, values(10))
    running.await_copied(60)
    running.end()
    pipeline = load_pipeline([path])
    assert assert_transformed(clusters, pipeline, topic, through_upper) == 0
    assert [r.value for r in read_all(clusters.target_servers, other)] == values(10) * 3


@MODES
def test_a_slot_that_is_killed_while_its_function_hangs_leaves_no_process_and_loses_nothing(
    clusters: KafkaSandbox, tmp_path: Path, mode: str
) -> None:
    """Killed while it copies its other topic."""
    topic, other = (create_topic(clusters.source_servers, unique("orders"), 1) for _ in range(2))
    path, pipeline, function = unruly(
        clusters, tmp_path, [topic, other], mode, coordination={"assignment": {"graceWindow": "2 seconds"}}
    )
    produce(clusters.source_servers, topic, values(40, at_27=b"search"))
    runner, kill = in_processes()
    killed = Running(pipeline, 1, runner)
    wait_until(
        lambda: any(p.cpu_times().user > 1 for p in children_of_functions()) or killed.error, 60, "the function to hang"
    )
    assert killed.error is None
    for _ in range(2):
        before = len(read_all(clusters.target_servers, other))
        produce(clusters.source_servers, other, values(500))
        wait_until(lambda: len(read_all(clusters.target_servers, other)) > before, 120, "the other topic")  # noqa: B023
    killed.abandon()
    kill()
    wait_until(lambda: not children_of_functions(), 120, "its process to end with the slot")
    correct(tmp_path, function)
    pipeline = load_pipeline([path])
    assert copy(pipeline).stopped == {}
    assert topic in topics(clusters.target_servers)
    assert_transformed(clusters, pipeline, topic, through_upper, once=mode == "enabled")
    copied = [r.value for r in read_all(clusters.target_servers, other)]
    if mode == "enabled":
        assert copied == values(500) * 2
    else:
        assert set(copied) == set(values(500))
        assert len(copied) >= 1000


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("step", ["write", "settle", "write_control", "commit"])
def test_a_copy_is_killed_whose_function_ends_its_process_now_and_then(
    clusters: KafkaSandbox, tmp_path: Path, mode: str, step: str
) -> None:
    topic = create_topic(clusters.source_servers, unique("orders"), 1)
    _, pipeline, _ = unruly(clusters, tmp_path, [topic], mode, **of_small_transactions(20))
    markers = [tmp_path / f"marker{n}" for n in range(4)]
    made = values(160)
    for number, marker in enumerate(markers):
        made[20 + 37 * number] = b"now and then %s" % str(marker).encode()
    produce(clusters.source_servers, topic, made)
    outcome = copy(pipeline, cores=1, runner=dying_first(step, 3))
    assert (outcome.stopped, outcome.topics[topic].lag) == ({}, 0)
    assert all(marker.exists() for marker in markers)
    assert_transformed(clusters, pipeline, topic, through_upper, once=mode == "enabled")
