"""The pipeline back, as a bidirectional pipeline's own file tells of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k2k_assets.pipeline import load_pipeline
from k2k_assets.pipeline.reverse import INFERRED, as_bidirectional, reverse_of
from k2k_assets_tests.support.copies.pipelines import make_pipeline, write_pipeline

BOTH = {"bidirectionalReplication": "enabled", "offsetMapping": "enabled"}


def test_source_and_target_are_exchanged_and_all_else_is_the_same(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"], features=BOTH, consumer={"auto.offset.reset": "latest"})
    back = reverse_of(pipeline)
    for role, servers in (("source", "b:1"), ("target", "a:1")):
        assert back.client_properties(role, "admin")["bootstrap.servers"] == servers  # type: ignore[arg-type]
    assert back.group == "*"
    assert "group.id" not in back.client_properties("target", "consumer")
    assert "auto.offset.reset" not in back.client_properties("target", "consumer")
    assert back.offset_mapping.topic == pipeline.offset_mapping.topic
    assert back.coordination.commit.topic == pipeline.coordination.commit.topic
    assert back.name != pipeline.name, "the index of that name is the pipeline's own"
    assert back.routing.target_if_any("t") == "t"


def test_other_names_come_from_the_file(tmp_path: Path) -> None:
    names: Any = {"reverse": {"mappingTopic": "theirs", "commitTopic": "progress"}}
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"], features=BOTH, bidirectional=names, sink={"prefix": "x."})
    back = reverse_of(pipeline)
    assert (back.offset_mapping.topic, back.coordination.commit.topic) == ("theirs", "progress")
    assert back.routing.name == INFERRED


def test_a_pipeline_that_is_bidirectional_by_its_mappings_marks_its_copies(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"])
    assert pipeline.marker is None
    there = as_bidirectional(pipeline, "pipeline")
    assert there.marker is not None
    assert there.marker.mode == "pipeline"


@pytest.mark.parametrize("name", ["mappingTopic", "commitTopic"])
def test_a_name_must_be_one_of_a_topic(tmp_path: Path, name: str) -> None:
    path = write_pipeline(tmp_path, "a:1", "b:1", ["t"], bidirectional={"reverse": {name: "no topic"}})
    with pytest.raises(Exception, match=f"bidirectional.reverse.{name}"):
        load_pipeline([path])
