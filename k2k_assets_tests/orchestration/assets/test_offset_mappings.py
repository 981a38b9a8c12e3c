"""The data version of the mappings changes when downstream assets must be updated."""

from __future__ import annotations

from k2k_assets.mapping.index.manifest import Lost, Manifest
from k2k_assets.orchestration.assets.offset_mappings import mappings_version

_MANIFEST = Manifest(
    pipeline="p",
    group="g",
    source_cluster="source",
    target_cluster="target",
    mapping_topic="mappings",
    mapping_topic_id="topic-1",
    offsets={0: 10},
    directory="1",
    number=1,
    time=0,
    records_read=5,
    runs=1,
    mapped=5,
)


def test_more_mappings_change_no_answer() -> None:
    more = _MANIFEST.model_copy(update={"offsets": {0: 20}, "runs": 7, "mapped": 50, "number": 2, "directory": "2"})
    assert mappings_version(more) == mappings_version(_MANIFEST)


def test_lost_ones_do() -> None:
    """Lost mapping records change the version: what was derived from them is not up to date."""
    lost = Lost(partition=0, start=3, end=5, before_first_read=False)
    for changed in ({"lost": [lost]}, {"earlier_topics": ["topic-0"]}, {"source_cluster": "another"}):
        assert mappings_version(_MANIFEST.model_copy(update=changed)) != mappings_version(_MANIFEST)
