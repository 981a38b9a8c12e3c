"""The manifest: a clear message for one that this release cannot use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k2k_assets.mapping.index.manifest import MANIFEST, IndexOutdated, IndexUnusable, Lost, read_manifest
from k2k_assets.mapping.index.unread import compared, missing_from
from k2k_assets_tests.support.memory.mapping_topic import CLUSTERS, LocalIndex, mapping_record

OLD = {
    "version": 1,
    "pipeline": "p",
    "group": "g",
    "source_cluster": CLUSTERS[0],
    "target_cluster": CLUSTERS[1],
    "mapping_topic": "mappings",
    "mapping_topic_id": "topic-1",
    "offsets": {"0": 10, "1": 0},
    "directory": "00000001-abcdef00",
    "number": 1,
    "time": 0,
    "records_read": 5,
    "runs": 1,
    "mapped": 5,
}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    index = LocalIndex(tmp_path)
    assert read_manifest(tmp_path) is None
    index.topic.write(mapping_record((1, 1), (0, 5), [(0, 0, 5)]))
    written = index.update()
    assert read_manifest(tmp_path) == written


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version":2}', '{"version":3}', '{"version":1}'])
def test_what_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(IndexUnusable, match=r"manifest\.json.*(cannot be read|unknown here)"):
        read_manifest(tmp_path)


def test_one_of_an_older_release_tells_whose_it_is(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(json.dumps(OLD))
    with pytest.raises(IndexOutdated, match="materialize offset_mappings, which builds the index anew") as caught:
        read_manifest(tmp_path)
    identity = caught.value.identity
    assert (identity.group, identity.mapping_topic_id, identity.offsets) == ("g", "topic-1", {0: 10, 1: 0})


@pytest.mark.parametrize(
    ("change", "starts", "says"),
    [
        ({}, {0: 0, 1: 0}, None),
        ({}, {0: 2, 1: 0}, "partition 0 of the mapping topic begins at 2 now"),
        # It had begun to read there, so a build from the start finds the same.
        ({"lost": [Lost(partition=0, start=0, end=2, before_first_read=True)]}, {0: 2, 1: 0}, None),
        ({"lost": [Lost(partition=0, start=0, end=2, before_first_read=True)]}, {0: 4, 1: 0}, "begins at 4"),
        ({"lost": [Lost(partition=0, start=0, end=2, before_first_read=False)]}, {0: 2, 1: 0}, "begins at 2"),
        # Nothing of that partition is in it.
        ({"offsets": {0: 10}}, {0: 0, 1: 8}, None),
        ({"mapping_topic_id": "topic-0"}, {0: 0, 1: 0}, "created anew"),
        ({"earlier_topics": ["topic-0"]}, {0: 0, 1: 0}, "created anew"),
    ],
)
def test_what_a_build_from_the_start_would_not_find(
    tmp_path: Path, change: dict[str, object], starts: dict[int, int], says: str | None
) -> None:
    (tmp_path / MANIFEST).write_text(json.dumps(OLD))
    with pytest.raises(IndexOutdated) as caught:
        read_manifest(tmp_path)
    before = caught.value.identity.model_copy(update=change)
    found = missing_from(compared("mappings", "topic-1", starts, {0: 12, 1: 12}, [], CLUSTERS, None), before)
    assert (found is None) if says is None else (found and says in found)
