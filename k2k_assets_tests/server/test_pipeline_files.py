"""Which pipelines the server shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.server.pipeline_files import PipelineFiles
from k2k_assets_tests.support.copies.pipelines import write_pipeline


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_pipeline(tmp_path, "s:1", "t:1", ["orders"], name="orders", consumer={"group.id": "k2k.orders"})


def test_files_are_read_again_only_when_they_change(file: Path) -> None:
    files = PipelineFiles([(file,)])
    (before,) = files.current()
    assert files.current()[0] is not None
    assert files.current()[0].pipeline is before.pipeline
    file.write_text(file.read_text().replace("orders", "returns"))
    (after,) = files.current()
    assert after.pipeline is not None
    assert (before.id, after.id) == ("orders:k2k.orders", "returns:k2k.returns")


def test_a_fault_is_told_and_mended_while_the_server_runs(file: Path) -> None:
    good = file.read_text()
    file.write_text("name: orders\n")
    files = PipelineFiles([(file,)])
    (found,) = files.current()
    assert (found.pipeline, found.id) == (None, "")
    assert f"{file}:1:1: source: expected this key" in found.fault
    file.write_text(good)
    assert files.current()[0].id == "orders:k2k.orders"


def test_a_folder_is_watched(file: Path) -> None:
    files = PipelineFiles(folder=file.parent)
    assert _names(files) == ["orders"]
    (file.parent / "notes.txt").write_text("no pipeline")
    (file.parent / "z.yml").write_text(file.read_text().replace("orders", "returns"))
    assert _names(files) == ["orders", "returns"]
    file.unlink()
    assert _names(files) == ["returns"]


def test_defaults_come_before_each_pipeline(file: Path, tmp_path: Path) -> None:
    defaults = tmp_path / "defaults.txt"
    defaults.write_text("owners: [team:shop]\n")
    (found,) = PipelineFiles([(file,)], defaults=(defaults,)).current()
    assert found.pipeline is not None
    assert list(found.pipeline.owners) == ["team:shop"]


def test_the_same_progress_twice_is_a_fault(file: Path) -> None:
    same = file.parent / "same.yaml"
    same.write_text(file.read_text())
    first, second = PipelineFiles([(file,), (same,)]).current()
    assert (first.id != "", second.id) == (True, "")
    assert f"is in {file} too" in second.fault


def test_no_other_file_decides_which_pipeline_an_address_means(file: Path) -> None:
    """Two of one name: while the file of the first has a fault, its address must not mean the second."""
    good, other = file.read_text(), file.parent / "zother.yaml"
    other.write_text(good.replace("group.id: ", "group.id: other-"))
    files = PipelineFiles([(file,), (other,)])
    first, second = (one.id for one in files.current())
    assert first != second
    file.write_text("name: orders\n")
    assert [one.id for one in files.current()] == ["", second]
    other.unlink()
    file.write_text(good)
    assert [one.id for one in files.current()] == [first, ""]


def test_pipelines_whose_names_and_groups_read_alike_are_two(tmp_path: Path) -> None:
    named = [("a:b", "c"), ("a", "b:c"), ("a~3Ab", "c"), ("a/b", "c%")]
    files = [
        (write_pipeline(tmp_path, "s:1", "t:1", ["orders"], name=name, consumer={"group.id": group}),)
        for name, group in named
    ]
    assert [one.id for one in PipelineFiles(files).current()] == ["a~3Ab:c", "a:b~3Ac", "a~7E3Ab:c", "a~2Fb:c~25"]


def _names(files: PipelineFiles) -> list[str]:
    return [one.pipeline.name for one in files.current() if one.pipeline is not None]
