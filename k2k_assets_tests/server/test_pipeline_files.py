"""Which pipelines the server shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.server.pipeline_files import PipelineFiles
from k2k_assets_tests.support.copies.pipelines import write_pipeline


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_pipeline(tmp_path, "s:1", "t:1", ["orders"], name="orders")


def test_files_are_read_again_only_when_they_change(file: Path) -> None:
    files = PipelineFiles([(file,)])
    (before,) = files.current()
    assert files.current()[0] is not None
    assert files.current()[0].pipeline is before.pipeline
    file.write_text(file.read_text().replace("orders", "returns"))
    (after,) = files.current()
    assert after.pipeline is not None
    assert (before.id, after.id) == ("orders", "returns")


def test_a_fault_is_told_and_mended_while_the_server_runs(file: Path) -> None:
    good = file.read_text()
    file.write_text("name: orders\n")
    files = PipelineFiles([(file,)])
    (found,) = files.current()
    assert (found.pipeline, found.id) == (None, "")
    assert f"{file}:1:1: source: expected this key" in found.fault
    file.write_text(good)
    assert files.current()[0].id == "orders"


def test_a_folder_is_watched(file: Path) -> None:
    files = PipelineFiles(folder=file.parent)
    assert [one.id for one in files.current()] == ["orders"]
    (file.parent / "notes.txt").write_text("no pipeline")
    (file.parent / "z.yml").write_text(file.read_text().replace("orders", "returns"))
    assert [one.id for one in files.current()] == ["orders", "returns"]
    file.unlink()
    assert [one.id for one in files.current()] == ["returns"]


def test_defaults_come_before_each_pipeline(file: Path, tmp_path: Path) -> None:
    defaults = tmp_path / "defaults.txt"
    defaults.write_text("owners: [team:shop]\n")
    (found,) = PipelineFiles([(file,)], defaults=(defaults,)).current()
    assert found.pipeline is not None
    assert list(found.pipeline.owners) == ["team:shop"]


def test_a_second_pipeline_of_one_name_is_told_by_its_group_and_the_same_progress_twice_is_a_fault(file: Path) -> None:
    text = file.read_text()
    same, other = file.parent / "same.yaml", file.parent / "zother.yaml"
    same.write_text(text)
    other.write_text(text.replace("group.id: ", "group.id: other-"))
    first, second, third = PipelineFiles([(file,), (same,), (other,)]).current()
    assert (first.id, second.id) == ("orders", "")
    assert f"is in {file} too" in second.fault
    assert third.pipeline is not None
    assert third.id == f"orders:{third.pipeline.group}"
