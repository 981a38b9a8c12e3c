"""A running mapper ignores an index that it cannot read, and tries again later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
import yaml

from k2k_assets.groups.mapper_file import load_mapper_pipeline
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.algebra.partition_map import PartitionMap, SourcePartition
from k2k_assets.mapping.index import IndexReader, IndexReplaced, IndexUnusable
from k2k_assets.mapping.live import index_access
from k2k_assets.mapping.live.index_access import IndexAccess
from k2k_assets.pipeline import Pipeline
from k2k_assets_tests.support.copies.pipelines import make_pipeline

SOURCE = SourcePartition("source-cluster", "t", "s-t", 0)
KNOWN = PartitionMap(SOURCE, 0, (Covered(0, 100),), {})


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., IndexAccess]:
    """An index of which each reading, and each opening, does what a test says."""

    def make(readings: list[PartitionMap | Exception], openings: list[Exception] | None = None) -> IndexAccess:
        pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"], features={"offsetMapping": "enabled"})
        later = list(openings or [])

        def read(*_: object) -> PartitionMap:
            found = readings.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        def open_index(_: object) -> SimpleNamespace:
            if later and number["of openings"]:
                raise later.pop(0)
            number["of openings"] += 1
            manifest = SimpleNamespace(
                group=pipeline.group,
                source_cluster="source-cluster",
                target_cluster="target-cluster",
                mapping_topic=pipeline.offset_mapping.topic,
                mapping_topic_id="id",
                offsets={0: 10},
                directory="version",
            )
            return SimpleNamespace(manifest=manifest, partition_map=read)

        number = {"of openings": 0}
        monkeypatch.setattr(index_access, "IndexReader", SimpleNamespace(open=open_index))
        monkeypatch.setattr(index_access, "_REFRESH_SECONDS", 1e9)
        return IndexAccess(pipeline, "source-cluster", "target-cluster", "id")

    return make


@pytest.mark.parametrize(
    "trouble",
    [IndexReplaced("gone"), NotADirectoryError(20, "Not a directory"), pa.ArrowInvalid("no Parquet file")],
    ids=["replaced", "disk", "torn"],
)
def test_what_cannot_be_read_is_unknown_until_it_can(
    opened: Callable[..., IndexAccess], trouble: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    access = opened([trouble, trouble, trouble, trouble, KNOWN])
    assert access.below(SOURCE, 0, 100, {0: 10}) is None
    assert [record.levelname for record in caplog.records if "cannot be read" in record.message] == ["WARNING"]
    assert access.take_missed(), "so that it is looked for elsewhere"
    assert not access.take_missed()
    assert access.below(SOURCE, 0, 100, {0: 10}) is None
    assert not access.take_missed(), "once for a version"
    assert access.below(SOURCE, 0, 100, {0: 10}) is KNOWN


def test_a_version_that_was_replaced_is_followed_by_the_next(opened: Callable[..., IndexAccess]) -> None:
    access = opened([IndexReplaced("gone"), KNOWN])
    assert access.below(SOURCE, 0, 100, {0: 10}) is KNOWN


@pytest.mark.parametrize("trouble", [IndexUnusable("none"), PermissionError(13, "Permission denied")])
def test_one_that_cannot_be_opened_any_more_is_none(opened: Callable[..., IndexAccess], trouble: Exception) -> None:
    access = opened([IndexReplaced("gone")], [trouble])
    assert access.below(SOURCE, 0, 100, {0: 10}) is None
    assert access.reader is None
    assert access.take_missed() is isinstance(trouble, IndexUnusable), "a disk may come back"
    assert access.below(SOURCE, 0, 100, {0: 10}) is None
    assert not access.take_missed(), "once"


def test_a_file_for_a_mapper_alone_reads_the_records_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They note whether both sides are written; of the index nobody would know, and call exact what is not."""
    opened: list[Pipeline] = []

    def note(pipeline: Pipeline) -> IndexReader:
        opened.append(pipeline)
        raise IndexUnusable("none")

    monkeypatch.setattr(IndexReader, "open", note)
    file = tmp_path / "mapper.yaml"
    sections = {side: {"kafka": {"common": {"bootstrap.servers": f"{side}:1"}}} for side in ("source", "target")}
    text = yaml.safe_dump({"name": "mapper", "groups": {"consumerGroups": ".*"}, **sections})
    for more, opens in (("", 0), ("errorHandling: {onForeignWriter: fail}\n", 1)):
        file.write_text(text + more)
        pipeline = load_mapper_pipeline([file])
        assert IndexAccess(pipeline, "source", "target", "topic").reader is None
        assert len(opened) == opens
