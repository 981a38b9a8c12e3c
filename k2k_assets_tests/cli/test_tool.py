"""`k2k-tool translate`: arguments, text, JSON and exit codes. Tests of `translation` use real clusters."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2k_assets.cli import offset_mapping, tool
from k2k_assets.cli.timestamps import Timestamp
from k2k_assets.control.commit_record import Overridden
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import utc
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.overrides.committed import CommittedPosition, CommittedPositions
from k2k_assets.overrides.decide import Override, PartitionFacts
from k2k_assets.translation import OffsetTranslator, TranslatedOffset, checkpoints
from k2k_assets.translation.checkpoints import TranslatedCheckpoint, TranslatedPartition
from k2k_assets_tests.status.records import commit_record
from k2k_assets_tests.support.copies.pipelines import write_pipeline

PLACE = ("--topic", "orders", "--partition", "3")


class _Fake:
    """Answers as it is told."""

    def __init__(self, *answers: TranslatedOffset) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []
        self.end: int | None = None

    def translate(self, *asked: Any) -> list[TranslatedOffset]:
        self.asked.append(("there", *asked))
        return self.answers

    def translate_back(self, *asked: Any) -> list[TranslatedOffset]:
        self.asked.append(("back", *asked))
        return self.answers

    def end_of(self, *_: Any, reverse: bool) -> int | None:
        return self.end

    def offset_at(self, *asked: Any, reverse: bool) -> int:
        self.asked.append(("time", *asked, reverse))
        return 77


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    return write_pipeline(tmp_path, "s:9092", "t:9092", ["orders"])


def _answers(monkeypatch: pytest.MonkeyPatch, *answers: TranslatedOffset) -> _Fake:
    fake = _Fake(*answers)

    @contextmanager
    def opened(_: object) -> Iterator[_Fake]:
        yield fake

    monkeypatch.setattr(OffsetTranslator, "open", opened)
    return fake


def _row(to: tuple[str, int] | None, offset: int | None, state: str, asked: int = 77) -> TranslatedOffset:
    to_topic, to_partition = to or (None, None)
    return TranslatedOffset("orders", 3, asked, to_topic, to_partition, offset, state)


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = tool.run(["translate", *map(str, arguments)])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return code, said.out, said.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        PLACE,
        ("--topic", "orders", "--offset", "1"),
        ("--partition", "3", "--offset", "1"),
        (*PLACE, "--offset", "1", "--timestamp", "1"),
        (*PLACE, "--offset", "-1"),
        (*PLACE, "--timestamp", "yesterday"),
        ("--checkpoint", "-", "--topic", "orders"),
        ("--checkpoint", "-", "--timestamp", "1"),
        ("--checkpoint", "no-such-file"),
    ],
)
def test_what_does_not_go_together_is_a_usage_error(
    arguments: tuple[str, ...], pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said, wrong = _run(capsys, "-f", pipeline, *arguments)
    assert (code, said) == (2, "")
    assert "Error: " in wrong


def test_a_position_in_words(
    pipeline: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = _answers(monkeypatch, _row(("copy", 0), 70, "exact"), _row(("copy", 1), 80, "ahead"))
    code, said, _ = _run(capsys, "-f", pipeline, *PLACE, "--offset", 77)
    assert code == 0
    assert said == (
        "orders-3 at 77\n"
        "  -> copy-0 at 70   exact\n"
        "  -> copy-1 at 80   ahead: beyond what is copied: the answer is the end of the copy, and moves with it\n"
    )
    assert fake.asked == [("there", "orders", 3, [77])]


def test_a_time_is_looked_up_on_the_side_that_is_asked(
    pipeline: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = _answers(monkeypatch, _row(("copy", 0), 70, "exact"))
    for reverse in ((), ("--reverse",)):
        code, said, _ = _run(capsys, "-f", pipeline, *PLACE, "--timestamp", "2026-01-31T12:00:00Z", *reverse)
        assert code == 0
        assert said.startswith("orders-3 at 77, first record from 2026-01-31T12:00:00.000Z on\n")
    assert fake.asked == [
        ("time", "orders", 3, 1_769_860_800_000, False),
        ("there", "orders", 3, [77]),
        ("time", "orders", 3, 1_769_860_800_000, True),
        ("back", "orders", 3, [77]),
    ]


def test_json_names_the_side(
    pipeline: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _answers(monkeypatch, _row(("copy", 0), 70, "expired"))
    code, said, _ = _run(capsys, "-f", pipeline, *PLACE, "--offset", 77, "--reverse", "--json")
    assert code == 0
    answer = {"sourceTopic": "copy", "sourcePartition": 0, "sourceOffset": 70, "state": "expired"}
    assert json.loads(said) == {"topic": "orders", "partition": 3, "offset": 77, "answers": [answer]}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (_row(("copy", 0), None, "unknown"), "orders-3 at 77 has no answer: the mappings do not prove an answer"),
        (_row(None, None, "not replicated"), "orders-3 at 77 has no answer: nothing of this partition was copied"),
    ],
)
def test_no_answer_is_exit_code_3(
    row: TranslatedOffset,
    why: str,
    pipeline: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _answers(monkeypatch, row)
    code, said, wrong = _run(capsys, "-f", pipeline, *PLACE, "--offset", 77, "--json")
    assert code == 3
    assert json.loads(said)["answers"][0]["state"] == row.state
    assert why in wrong


def test_a_position_beyond_the_end_is_said_to_be_that(
    pipeline: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = _answers(monkeypatch, _row(("copy", 0), None, "unknown"))
    fake.end = 76
    code, said, wrong = _run(capsys, "-f", pipeline, *PLACE, "--offset", 77)
    assert code == 3
    assert "unknown: beyond the end of the log, 76: there is no such record yet" in said
    assert "orders-3 at 77 has no answer: beyond the end of the log, 76" in wrong
    fake.end = 77
    assert "the mappings do not prove an answer" in _run(capsys, "-f", pipeline, *PLACE, "--offset", 77)[1]


def _checkpoint(monkeypatch: pytest.MonkeyPatch, *rows: TranslatedPartition) -> list[Any]:
    asked: list[Any] = []

    def translated(_: object, positions: object, reverse: bool) -> TranslatedCheckpoint:
        asked.append((positions, reverse))
        return TranslatedCheckpoint(rows)

    monkeypatch.setattr(checkpoints, "translate_checkpoint", translated)
    return asked


_ANSWERED = TranslatedPartition(TopicPartition("copy", 0), 70, "exact", {TopicPartition("orders", 0): 77})
_UNKNOWN = TranslatedPartition(TopicPartition("copy", 1), None, "unknown", {})


def test_a_checkpoint(
    pipeline: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Offsets from a checkpoint file of Spark are translated, both ways; a file without any is refused."""
    asked = _checkpoint(monkeypatch, _ANSWERED)
    file = tmp_path / "17"
    file.write_text('v1\n{}\n{"orders":{"0":77}}')
    code, said, _ = _run(capsys, "-f", pipeline, "--checkpoint", file, "--json")
    assert (code, said) == (0, '{"copy":{"0":70}}\n')
    code, said, _ = _run(capsys, "-f", pipeline, "--checkpoint", file, "--reverse")
    assert (code, said) == (0, 'copy-0 at 70   exact   <- orders-0 at 77\n{"copy":{"0":70}}\n')
    assert asked == [({TopicPartition("orders", 0): 77}, False), ({TopicPartition("orders", 0): 77}, True)]
    file.write_text("nothing")
    code, said, wrong = _run(capsys, "-f", pipeline, "--checkpoint", file)
    assert (code, said) == (3, "")
    assert f"{file} holds no offsets" in wrong


def test_half_a_checkpoint_is_no_answer(
    pipeline: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _checkpoint(monkeypatch, _ANSWERED, _UNKNOWN)
    file = tmp_path / "17"
    file.write_text('{"orders":{"0":77}}')
    code, said, wrong = _run(capsys, "-f", pipeline, "--checkpoint", file, "--json")
    assert (code, said) == (3, "")
    assert "copy-1 at ?   unknown" in wrong
    assert "no answer for copy-1 (unknown). unknown: the mappings do not prove" in wrong


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        (tool.run, ["describe", "-d", "DEFAULTS"]),
        (tool.run, ["set", "-d", "DEFAULTS", "-o", "orders:0:earliest"]),
        (tool.run, ["reset", "--yes", "-d", "DEFAULTS"]),
        (tool.run, ["translate", "-d", "DEFAULTS", *PLACE, "--offset", "1"]),
        (offset_mapping.run, ["failback", "-f", "DEFAULTS"]),
        (offset_mapping.run, ["start", "-f", "DEFAULTS"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_files_in_parts_and_variables_switched_off(
    program: Any,
    arguments: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As K2K's tools take them: a list with commas is one pipeline, defaults come first, `-g` leaves `${` alone.

    Of `k2k-tool` each `-f` is a pipeline of its own; of the other programs all are one.
    """
    each_is_one = program is tool.run

    def given(*files: object) -> list[str]:
        separate = ["-f", ",".join(map(str, files[:-1])), "-f", str(files[-1])]
        return ["-f", ",".join(map(str, files))] if each_is_one else separate

    def unreachable(_: Cluster, role: str, properties: dict[str, object], *__: object) -> None:
        raise ClusterUnreachable(f"{role} is {properties['bootstrap.servers']}")

    monkeypatch.setattr(Cluster, "__init__", unreachable)
    whole = write_pipeline(tmp_path, "s:9092", "t:9092", ["orders"])
    defaults, last = tmp_path / "defaults.yaml", tmp_path / ("last.yaml" if each_is_one else "last, or not.yaml")
    defaults.write_text("coordination: {commit: {batchSize: a default}}\nsource: {kafka: {common: {}}}")
    last.write_text("coordination: {commit: {batchSize: 7}}\nname: not ${a variable")
    arguments = [str(defaults) if each == "DEFAULTS" else each for each in arguments]
    first = tmp_path / "first.yaml"
    first.write_text("source: {kafka: {common: {bootstrap.servers: 'first:1'}}}")
    for files, server in (((whole, f" {first}"), "first:1"), ((first, whole), "s:9092")):
        assert program([*arguments, *given(*files, last), "-g", "disabled"]) == 3
        assert f"source is {server}" in capsys.readouterr().err
    assert program([*arguments, "-f", f"{whole},{first}"]) == 2
    assert "defaults.yaml" in capsys.readouterr().err, "nothing came after its batchSize"
    assert program([*arguments, *given(whole, first, last)]) == 2
    assert "not closed" in capsys.readouterr().err


def test_times_are_read_and_shown_in_utc() -> None:
    read = Timestamp().convert
    assert read("1769860800000", None, None) == read("2026-01-31T12:00:00", None, None) == 1_769_860_800_000
    assert read("2026-01-31T13:00:00.001+01:00", None, None) == 1_769_860_800_001
    assert utc(1_769_860_800_001) == "2026-01-31T12:00:00.001Z"


def test_help_imports_no_kafka_and_no_spark() -> None:
    script = (
        "import sys; from k2k_assets.cli.tool import run; code = run(['translate', '--help'])\n"
        "assert code == 0\n"
        "print([name for name in ('pyspark', 'confluent_kafka', 'pyarrow', 'pydantic') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "--reverse" in said
    assert said.endswith("[]\n")


def _committed(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, gone = (TopicPartition("orders", p) for p in range(3))
    hand = Overridden("me@here", None, 3, None, None, None)
    state = CommittedPositions(
        "s",
        "t",
        [
            CommittedPosition(a, commit_record(a, position=1000), 3500, None),
            CommittedPosition(
                b, commit_record(b, position=7, kind="override", overridden=hand), 8, SourceDeleted("orders")
            ),
            CommittedPosition(gone, commit_record(gone, position=9), None, None),
        ],
    )
    monkeypatch.setattr("k2k_assets.overrides.committed.committed", lambda *_: state)


def test_positions_as_a_table_with_lag_and_totals(
    pipeline: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _committed(monkeypatch)
    assert tool.run(["describe", "-f", str(pipeline), "--table"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == f"{pipeline.stem}, group k2k.{pipeline.stem}"
    assert [line.split() for line in lines[:4]] == [
        ["topic", "partition", "committed", "last", "lag"],
        ["orders", "0", "1,000", "3,500", "2,500"],
        ["orders", "1", "7", "8", "1", "stopped", "[source-deleted],", "set", "by", "hand", "by", "me@here"],
        ["orders", "2", "9", "?", "?", "gone", "from", "the", "source,", "or", "hidden"],
    ]
    text = "\n".join(lines)
    assert ["1", "topic", "3", "2,501"] in [line.split() for line in lines]
    assert "orders-1: [source-deleted] the source topic orders is gone." in text
    assert str(pipeline) in text.replace("\n", "")


def test_positions_stay_yaml_where_nobody_looks_and_json_where_it_is_asked_for(
    pipeline: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _committed(monkeypatch)
    documents = []
    for form in ([], ["--yaml"]):
        assert tool.run(["describe", "-f", str(pipeline), *form]) == 0
        documents.append(yaml.safe_load(capsys.readouterr().out))
    assert tool.run(["describe", "-f", str(pipeline), "--json"]) == 0
    documents.append(json.loads(capsys.readouterr().out))
    assert documents[0] == documents[1] == documents[2]
    assert documents[0]["committed"][0] == {"topic": "orders", "partition": 0, "committed": 1000, "last": 3500}


class _Overrides:
    """What was asked to be changed; nothing is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        monkeypatch.setattr("k2k_assets.topics.selection.resolve_topics", lambda *_: {"orders": 1})
        monkeypatch.setattr("k2k_assets.overrides.apply.rehearse", lambda *_: self._decided("rehearsed"))
        monkeypatch.setattr("k2k_assets.overrides.apply.override", lambda *_, force: self._decided("set"))

    def _decided(self, what: str) -> list[Override]:
        self.done.append(what)
        tp = TopicPartition("orders", 0)
        record = commit_record(tp, source_topic_id="id", target_topic_id="tid", position=5)
        facts = PartitionFacts(tp, record, None, "id", record.target_topic, "tid", 4, 9, 9, 5)
        return [Override(facts, 4, (), stays=False)]


def _typed(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    terminal = io.StringIO(answer)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)


@pytest.mark.parametrize(
    ("answer", "arguments", "code", "done"),
    [
        ("y\n", [], 0, ["rehearsed", "set"]),
        ("n\n", [], 3, ["rehearsed"]),
        ("\n", [], 3, ["rehearsed"]),
        ("", ["--yes"], 0, ["set"]),
        ("", ["--dry-run"], 0, ["rehearsed"]),
    ],
)
def test_reset_shows_what_it_would_do_and_asks(
    answer: str,
    arguments: list[str],
    code: int,
    done: list[str],
    pipeline: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overrides = _Overrides(monkeypatch)
    _typed(monkeypatch, answer)
    assert tool.run(["reset", "-f", str(pipeline), *arguments]) == code
    said = capsys.readouterr()
    assert overrides.done == done
    assert said.out.count("orders-0: 5 -> 4   copies 4 to 4 a second time") == 1
    assert ("Copy 1 source offset again" in said.err) == (not arguments)
    assert ("1 position set" in said.out) == ("set" in done)
    assert ("not confirmed; nothing was changed" in said.err) == (code == 3)


def test_reset_asks_nobody_in_a_script(
    pipeline: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = _Overrides(monkeypatch)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert tool.run(["reset", "-f", str(pipeline)]) == 0
    assert "1 position set" in capsys.readouterr().out
    assert overrides.done == ["set"]
