"""`k2k-offset-mapping validate`: checks a file that is only for the mapper, and the replicator's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from k2k_assets.cli import main, offset_mapping
from k2k_assets_tests.groups.test_mapper_file import MAPPER_ONLY
from k2k_assets_tests.support.copies.pipelines import write_pipeline


def write(directory: Path, **changes: Any) -> Path:
    path = directory / "mapper.yaml"
    path.write_text(yaml.safe_dump({**MAPPER_ONLY, **changes}))
    return path


def test_a_file_for_the_mapper_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert offset_mapping.run(["validate", "-f", str(write(tmp_path))]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "offset-mapper: the file is valid, only for the offset mapper",
        "  source     s:9092",
        "  target     t:9092",
        "  groups     that match '.*'",
        "  topics     all that are mapped",
        "  mappings   topic m",
        "  looks      every 5.0 s",
        "  guard      on",
        "  active     a group that has members on the target ends the mapper",
        "  doubled    a record that two pipelines have mapped ends the mapper",
        "  note       no effect: license: everything is free here",
    ]


def test_its_faults_are_those_of_a_mapper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, groups={"pollIntervall": "5 seconds"}, metrics={"prefix": {"offsetMappingAp": "x"}})
    assert offset_mapping.run(["validate", "-f", str(path)]) == 2
    said = capsys.readouterr().err
    assert "groups.pollIntervall: unknown key; did you mean pollInterval?" in said
    assert "metrics.prefix.offsetMappingAp: unknown key; did you mean offsetMappingApp?" in said
    assert said.startswith("Error: 2 faults in the pipeline file:")


def test_the_replicators_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A replicator's file is told from the mapper's view, also that one publishes no mappings."""
    path = write_pipeline(
        tmp_path, "s:1", "t:1", ["orders"], errorHandling={"onActiveConsumerGroupCommit": "ignore"},
        features={"offsetMapping": "enabled", "applyMappingsGuard": "disabled"}, groups={"consumerGroups": ["a", "b"]},
    )  # fmt: skip
    assert offset_mapping.run(["validate", "-f", str(path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{path.stem}: the pipeline file is valid for the offset mapper\n")
    for line in (
        "groups     a, b",
        "topics     the topic orders",
        "guard      off: a commit may go back",
        "active     a group that has members on the target is left alone",
    ):
        assert line in said
    assert "warning" not in said
    without = write_pipeline(tmp_path, "s:1", "t:1", ["orders"])
    assert offset_mapping.run(["validate", "-f", str(without)]) == 0
    assert "features.offsetMapping is disabled: no mappings are published" in capsys.readouterr().out


def test_the_replicators_command_names_the_mappers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["validate", "-f", str(write(tmp_path))]) == 2
    said = capsys.readouterr().err
    assert "`k2k-offset-mapping validate` checks such a file" in said
