"""Checks every command, link, record and pipeline in the docs."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

import pytest

from k2k_assets.cli import exit_codes
from k2k_assets.cli.main import COMMANDS
from k2k_assets.control.assignment_state import Assignments
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.control_topics import control_topics
from k2k_assets.control.mapper_claims import ClaimedMappers
from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.control.pause_records import pause_key, pause_value
from k2k_assets.control.stop_notes import StopNote
from k2k_assets.pipeline import load_pipeline
from k2k_assets.topics.create import WantedTopic
from k2k_assets.verification.mapping_checks import CHECKS
from k2k_assets_tests.storm.faults import FAULTS
from k2k_assets_tests.support.suite.command_lines import PROGRAMS, parse

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "TESTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
CONTROL = ROOT / "docs" / "control-topics.md"
_LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
_TEST = re.compile(r"(k2k_assets_tests/[\w/]+\.py)::(\w+)")
_PATH = re.compile(r"`((?:k2k_assets|k2k_assets_tests|benchmarks|docs|examples)/[\w./-]+)`")


def _blocks(page: Path, language: str) -> Iterator[str]:
    yield from re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def _commands() -> list[tuple[str, list[str]]]:
    return [
        (page.name, shlex.split(line, comments=True))
        for page in PAGES
        for block in _blocks(page, "sh")
        for line in block.replace("\\\n", " ").splitlines()
        if line.strip()
    ]


def _records(page: Path = CONTROL) -> list[tuple[bytes, bytes | None]]:
    lines = [line.partition("\t") for block in _blocks(page, "text") for line in block.splitlines() if "\t" in line]
    return [(key.encode(), None if value == "null" else value.encode()) for key, _, value in lines]


def _kind(key: bytes) -> str:
    head = json.loads(key)
    return head.get("kind") or ("commit" if "cluster" in head else "mapping")


def _table(heading: str) -> set[str]:
    """The fields that a section of the page names, in its value table."""
    section = CONTROL.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = section.split("| value field")[1]
    return {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}


# -- commands -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("page", "command"), _commands(), ids=lambda value: " ".join(value)[:60])
def test_every_documented_command_exists_with_its_flags(page: str, command: list[str]) -> None:
    program, *arguments = command
    checks: dict[str, Callable[[list[str]], None]] = {
        "make": _check_make,
        **{name: partial(parse, command) for name, command in PROGRAMS.items()},
        "dagster": _check_dagster,
        "create-dagster": partial(_check_run_in_a_project, page),
        "dg": partial(_check_run_in_a_project, page),
        "python": _check_python,
        "python3": _check_environment,
        "pip": _check_installation,
        "systemctl": _check_units,
        **dict.fromkeys(("useradd", "install", "ln", "export"), partial(_check_walked, page)),
        "promtool": _check_promtool,
        "kafka-topics.sh": _check_topic_creation,
        "kafka-console-consumer.sh": _check_topic_name,
    }
    check = checks.get(Path(program).name)
    assert check, f"{page}: nobody checks `{program}`"
    check(arguments)


def _check_make(arguments: list[str]) -> None:
    target, *settings = arguments
    assert target in _make_targets()
    makefile = (ROOT / "Makefile").read_text()
    assert all(f"$({setting.partition('=')[0]})" in makefile for setting in settings)


def _check_dagster(arguments: list[str]) -> None:
    # k2k_assets_tests/orchestration/sensors/test_daemon.py runs it
    assert arguments == ["dev", "-m", "k2k_assets.definitions"]


def _check_run_in_a_project(page: str, arguments: list[str]) -> None:
    assert arguments
    assert page == "dagster.md"  # all of whose commands k2k_assets_tests/orchestration/project/test_own_project.py runs


def _check_python(arguments: list[str]) -> None:
    flag, module, *_ = arguments
    assert flag == "-m"
    path = ROOT / module.replace(".", "/")
    assert module == "pytest" or path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()


def _check_environment(arguments: list[str]) -> None:
    assert arguments[:2] == ["-m", "venv"]  # k2k_assets_tests/test_wheel.py makes it


def _check_installation(arguments: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    command, what = arguments
    name, _, extras = what.rstrip("]").partition("[")
    # test_wheel.py makes the wheel and installs it as docs/operations.md says
    assert (command, name) in {
        ("install", f"k2k_assets-{project['version']}-py3-none-any.whl"),
        ("install", "k2k-assets"),
    }
    assert set(filter(None, extras.split(","))) <= project["optional-dependencies"].keys()


def _check_units(arguments: list[str]) -> None:
    units = {path.stem.rstrip("@") for path in (ROOT / "examples" / "deploy" / "systemd").glob("*.service")}
    command, *names = [one for one in arguments if not one.startswith("-")]
    assert command in {"enable", "restart", "daemon-reload"}
    assert {name.partition("@")[0] for name in names} <= units


def _check_walked(page: str, arguments: list[str]) -> None:
    assert arguments
    assert page == "operations.md"  # k2k_assets_tests/examples/test_operations.py runs them


def _check_promtool(arguments: list[str]) -> None:
    assert arguments[:2] == ["test", "rules"]  # k2k_assets_tests/telemetry/test_alert_rules.py runs it
    assert (ROOT / arguments[2]).is_file()


def _check_topic_creation(arguments: list[str]) -> None:
    topic = _wanted_topics()[_option(arguments, "--topic")]
    configs = [arguments[index + 1] for index, word in enumerate(arguments) if word == "--config"]
    assert int(_option(arguments, "--partitions")) == topic.partitions
    assert dict(config.split("=") for config in configs) == topic.config


def _check_topic_name(arguments: list[str]) -> None:
    assert _option(arguments, "--topic") in _wanted_topics()


def _option(arguments: list[str], name: str) -> str:
    return arguments[arguments.index(name) + 1]


def _wanted_topics() -> dict[str, WantedTopic]:
    return control_topics(load_pipeline([ROOT / "examples" / "minimal.yaml", _features()]))


def _features() -> Path:
    return ROOT / "k2k_assets_tests" / "support" / "copies" / "offset_mapping.yaml"


def _make_targets() -> set[str]:
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    return set(re.findall(r"^  make ([\w-]+)", listed.stdout, re.MULTILINE))


def test_make_alone_lists_the_targets() -> None:
    assert _make_targets() == {
        "help",
        "setup",
        "demo",
        "dist",
        "dev",
        "check",
        "test",
        "test-all",
        "test-slow",
        "test-form",
        "test-brokers",
        "ui-test",
        "alerts-test",
        "screenshots",
        "storm",
        "bench",
        "bench-offsets",
        "lock",
        "lint",
        "docs",
        "clean",
    }
    assert (
        subprocess.run(
            ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, timeout=30, check=True
        ).stdout.count(b"\n")
        == 21
    )


def _ran_by_ci(folder: Path, programs: Sequence[str], user: int, apt_get: str | None) -> tuple[list[str], str]:
    """What `.ci/run` runs on a machine that has only these programs, and what it says on standard error.

    Args:
        folder: An empty one.
        programs: Names of programs that are there beside `make`, which only notes what is asked of it.
        user: Number of the user.
        apt_get: Script of `apt-get`, with the folder of programs as `$BIN`; None: there is none.
    """
    bin_folder, made = folder / "bin", folder / "made"
    bin_folder.mkdir(parents=True)
    scripts = {"make": f'echo "$@" >> {made}', "id": f"echo {user}", **dict.fromkeys(programs, "true")}
    if apt_get is not None:
        scripts["apt-get"] = apt_get
    for name, script in scripts.items():
        (bin_folder / name).write_text(f"#!/bin/sh\nBIN={bin_folder}\n{script}\n")
        (bin_folder / name).chmod(0o755)
    for name in ("bash", "dirname", "cp"):
        (bin_folder / name).symlink_to(shutil.which(name) or "")
    done = subprocess.run(
        [ROOT / ".ci" / "run"], env={"PATH": str(bin_folder)}, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return made.read_text().splitlines(), done.stderr


_INSTALLS = 'for last; do :; done; [ "$last" = prometheus ] && last=promtool; cp $BIN/make $BIN/$last'


@pytest.mark.parametrize(
    ("programs", "user", "apt_get", "also", "not_run"),
    [
        pytest.param(["chromium", "promtool"], 1000, None, ["ui-test", "alerts-test"], 0, id="all is there"),
        pytest.param(["chromium"], 1000, _INSTALLS, ["ui-test"], 1, id="not root"),
        pytest.param([], 0, None, [], 2, id="not Debian"),
        pytest.param([], 0, "exit 100", [], 2, id="no package can be had"),
        pytest.param(["chromium"], 0, _INSTALLS, ["ui-test", "alerts-test"], 0, id="installed"),
    ],
)
def test_ci_runs_all_that_it_can_and_says_what_it_cannot(
    tmp_path: Path, programs: list[str], user: int, apt_get: str | None, also: list[str], not_run: int
) -> None:
    made, said = _ran_by_ci(tmp_path, programs, user, apt_get)
    assert made[:-1] == ["lint", "test", *also]
    assert re.fullmatch(r"test-slow UNTIL=\d{10,}", made[-1])
    assert said.count("NOT RUN: make ") == not_run
    assert ["make", "test"] in [command for _, command in _commands()]


def test_an_old_python_is_refused_in_one_line(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin"}
    made = subprocess.run(
        ["make", "setup", "PYTHON=", f"VENV={tmp_path / 'venv'}"],
        cwd=ROOT, capture_output=True, text=True, timeout=30, check=False, env=environment,
    )  # fmt: skip
    assert made.returncode != 0
    assert made.stdout.splitlines() == ["Python 3.11 or newer is needed: install it, or name one with make PYTHON=..."]


@pytest.mark.processes
@pytest.mark.parametrize("command", [[], *[[name] for name in COMMANDS], ["sandbox", "up"]], ids=" ".join)
def test_help_of_every_command(command: list[str]) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "k2k_assets.cli.main", *command, "--help"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "Usage: k2k" in shown.stdout
    assert not shown.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_documented_import_works(page: Path) -> None:
    for block in _blocks(page, "python"):
        compile(block, page.name, "exec")
        exec("\n".join(line for line in block.splitlines() if line.startswith(("from ", "import "))), {})


# -- links, names, tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_path_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = [link for link in _LINK.findall(text) if not (page.parent / link).exists()]
    missing += [path for path in _PATH.findall(text) if not (ROOT / path).exists()]
    assert missing == []


def test_every_named_test_exists() -> None:
    named = [found for page in PAGES for found in _TEST.findall(page.read_text(encoding="utf-8"))]
    assert named
    assert [name for path, name in named if f"\ndef {name}(" not in (ROOT / path).read_text(encoding="utf-8")] == []


def test_the_fault_matrix_names_every_fault_of_the_storm() -> None:
    matrix = (ROOT / "docs" / "guarantees.md").read_text().split("\n## The fault matrix\n")[1].split("\n## ")[0]
    assert [fault.name for fault in FAULTS if f"`{fault.name}`" not in matrix] == []


@pytest.mark.parametrize("heading", ["The fault matrix", "Named interleavings"])
def test_every_row_of_a_table_of_proofs_names_a_test(heading: str) -> None:
    section = (ROOT / "docs" / "guarantees.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][2:]
    assert rows
    assert [row for row in rows if not _TEST.search(row)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_names_a_place_of_one_machine(page: Path) -> None:
    assert re.findall(r"(?<![\w.~])/(?:root|home|work|Users)/\S*", page.read_text(encoding="utf-8")) == []


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = [re.split(r"[^\w.-]", wanted)[0] for wanted in project["dependencies"]]
    names += [re.split(r"[^\w.-]", wanted)[0] for wanted in project["optional-dependencies"]["dev"]]
    told = re.findall(r"^\| `([\w.-]+)` \| \w", (ROOT / "docs" / "dependencies.md").read_text(), re.MULTILINE)
    assert sorted(told) == sorted(names)


def test_the_readmes_exit_codes_are_all_there_are() -> None:
    told = re.findall(r"^\| (\d+) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert [int(code) for code in told] == list(exit_codes.EXIT_CODES)


@pytest.mark.parametrize("page", ["README.md", "docs/guarantees.md"])
def test_every_check_is_named(page: str) -> None:
    text = (ROOT / page).read_text()
    assert [name for name in CHECKS if f"`{name}`" not in text] == []


# -- pipelines and records ------------------------------------------------------------------------------------------


def test_the_readmes_pipelines_load(tmp_path: Path) -> None:
    blocks = list(_blocks(ROOT / "README.md", "yaml"))
    assert blocks
    for block in blocks:
        path = tmp_path / "pipeline.yaml"
        path.write_text(block)
        pipeline = load_pipeline([path])
        assert pipeline.features.exactly_once
        assert pipeline.warnings == ()


def test_the_documented_records_are_what_we_write() -> None:
    kinds = {_kind(key) for key, _ in _records()}
    of_assignments = {"instance", "claim", "beat", "stop", "start", "settings", "pause", "mapper", "mapper-beat"}
    assert kinds == {"commit", "stopped", "mapping", *of_assignments}
    assignments, mappers = Assignments(), ClaimedMappers("demo")
    for offset, (key, value) in enumerate(_records()):
        if _kind(key) == "commit":
            record = CommitRecord.parse(key, value, "docs")
            assert (record.key_bytes(), record.value_bytes()) == (key, value)
        elif _kind(key) == "stopped":
            note = StopNote.parse(key, value, "docs")
            assert (note.key_bytes(), note.value_bytes()) == (key, value)
        elif _kind(key) == "mapping":
            mapping = MappingRecord.parse(key, value, "docs")
            assert (mapping.key_bytes(), mapping.value_bytes()) == (key, value)
        else:
            assignments.apply("k2k.demo", offset, key, value)
            mappers.apply(offset, key, value, "docs")
    assert len(assignments.instances) == 1
    assert assignments.stops == {0}
    assert assignments.starts == {"BwGPWE0CQqCQInd82LFX6Q": (2817, 2816, 2801)}
    assert [claim.topic for claim in assignments.claims.values()] == ["demo.alerts"]
    assert set(assignments.signs) == {(0, 1)}
    ((topic, pause),) = assignments.paused.items()
    assert (pause_key("k2k.demo", topic), pause_value(pause)) in list(_records())
    assert len(mappers.claims) == 1
    (heartbeat,) = mappers.heartbeats.values()
    assert (heartbeat.key_bytes(), heartbeat.value_bytes()) in list(_records())


@pytest.mark.parametrize(("heading", "kind"), [("Commit topic", "commit"), ("Mapping topic", "mapping")])
def test_every_field_is_documented(heading: str, kind: str) -> None:
    written = {name for key, value in _records() if _kind(key) == kind for name in json.loads(value or b"{}")}
    assert written - {"version", "time"} - _table(heading) == set()


def test_every_feature_of_k2k_has_a_row_that_names_a_test_on_real_clusters() -> None:
    page = (ROOT / "docs" / "k2k-compatibility.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \| (works|differs|not yet) \|(.*)\|$", page, re.MULTILINE)
    assert [int(number) for number, *_ in rows] == list(range(1, 51))
    without = [number for number, _, _, told in rows if not any(_is_on_clusters(*test) for test in _TEST.findall(told))]
    assert without == []


def _is_on_clusters(file: str, name: str) -> bool:
    """Whether a test, or all tests of its file, are marked `integration`."""
    marks: list[ast.expr] = []
    for each in _module(file).body:
        match each:
            case ast.FunctionDef(name=found) if found == name:
                marks += each.decorator_list
            case ast.Assign(targets=[ast.Name("pytestmark")]):
                marks.append(each.value)
    return any("pytest.mark.integration" in ast.unparse(mark) for mark in marks)


@cache
def _module(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))
