"""A running mapper whose index lies in an object store: it follows new versions, and outlives a store that is away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k2k_assets.core import object_folder
from k2k_assets.core.state_path import StoreError
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.mapping.live.index_access import IndexAccess
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.mapping_topic import CLUSTERS, GROUP, TOPIC, mapping_record
from k2k_assets_tests.support.memory.stored_index import StoredIndex, stored_index

SOURCE = SourcePartition(CLUSTERS[0], "s", "sid", 0)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[StoredIndex]:
    with stored_index(tmp_path) as made:
        yield made


def test_it_follows_new_versions_and_outlives_a_store_that_is_away(
    index: StoredIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = make_pipeline(
        tmp_path,
        "a:1",
        "b:1",
        ["s"],
        features={"offsetMapping": "enabled"},
        consumer={"group.id": GROUP},
        offsetMapping={"topic": TOPIC},
        index={"path": index.root.address},
    )
    index.topic.write(mapping_record((1, 0), (0, 10), [(0, 0, 10)]))
    index.update()
    access = IndexAccess(pipeline, *CLUSTERS, index.topic.id)
    found = access.below(SOURCE, 0, 10, access.offsets)
    assert found is not None
    assert found.covered_end == 10

    index.topic.write(mapping_record((1, 1), (10, 20), [(10, 11, 10)]))
    index.update()
    monkeypatch.setattr(access, "_next_look", 0.0)
    found = access.below(SOURCE, 0, 20, {0: 4})
    assert found is not None
    assert found.covered_end == 20

    def away(*_: object) -> object:
        raise StoreError("away")

    with monkeypatch.context() as patch:
        patch.setattr(object_folder, "asked", away)
        assert access.refresh() is None
        assert access.below(SOURCE, 0, 20, {0: 4}) is None, "unknown, not wrong"
        assert not access.take_missed(), "it was not deleted: nothing has to be read anew"
    assert access.refresh() is not None
    assert access.below(SOURCE, 0, 20, {0: 4}) == found
