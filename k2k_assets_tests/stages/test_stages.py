"""The stages of a pipeline, and their effect on a chunk."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.sections.added_headers import AddedHeader
from k2k_assets.stages import stages_of
from k2k_assets.stages.headers import header_adder
from k2k_assets.transport.chunk import Chunk
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.fake_records import ListRecords

ALL_KEPT = {"headerReplication": "enabled", "keepRecordCreationTimestamp": "enabled"}


def through(pipeline: Pipeline, topic: str = "orders", partition: int = 3) -> Chunk:
    chunk = Chunk(TopicPartition(topic, partition), ListRecords([1, 2]))
    return reduce(lambda chunk, stage: stage(chunk), stages_of(pipeline, "a", "b"), chunk)


def test_what_is_not_needed_is_not_in_the_list_and_the_records_are_handed_on_untouched(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["orders"], features=ALL_KEPT)
    chunk = Chunk(TopicPartition("orders", 3), ListRecords([1, 2]))
    (route,) = stages_of(pipeline, "a", "b")
    assert route(chunk) is chunk
    assert (chunk.target_topic, chunk.target_partition) == ("orders", 3)
    assert (chunk.keep_headers, chunk.keep_timestamps) == (True, True)


@pytest.mark.parametrize("headers", ["enabled", "disabled"])
@pytest.mark.parametrize("timestamps", ["enabled", "disabled"])
def test_headers_and_timestamps_as_the_features_say(tmp_path: Path, headers: str, timestamps: str) -> None:
    features = {"headerReplication": headers, "keepRecordCreationTimestamp": timestamps}
    chunk = through(make_pipeline(tmp_path, "a:1", "b:1", ["orders"], features=features))
    assert (chunk.keep_headers, chunk.keep_timestamps) == (headers == "enabled", timestamps == "enabled")


@pytest.mark.parametrize("headers", ["enabled", "disabled"])
def test_tracing_headers_are_added_behind_what_is_kept(tmp_path: Path, headers: str) -> None:
    features = {**ALL_KEPT, "headerReplication": headers, "tracingHeaders": "enabled"}
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["orders"], features=features)
    chunk = through(pipeline)
    assert chunk.added == pipeline.added_headers
    own = chunk.columns().headers()[0] or [] if headers == "enabled" else []
    assert (chunk.written_headers() or [])[0] == [
        *own,
        ("__k2k_partition", b"3"),
        ("__k2k_offset", b"1"),
        ("__k2k_topic", b"orders"),
        ("__k2k_pipeline", pipeline.name.encode()),
    ]


def test_headers_of_later_stages_stand_behind_those_of_earlier_ones() -> None:
    chunk = Chunk(TopicPartition("orders", 3), ListRecords([1]))
    for name in "ab":
        header_adder((AddedHeader(name, "text", name),))(chunk)
    assert chunk.written_headers() == [[("a", b"a"), ("b", b"b")]]


@pytest.mark.parametrize(
    ("sink", "target"),
    [
        ("source", "orders"),
        ({"prefix": "eu."}, "eu.orders"),
        ({"suffix": ".copy"}, "orders.copy"),
        ({"prefix": "eu.", "suffix": ".copy"}, "eu.orders.copy"),
        ({"static": "all"}, "all"),
        ({"staticMapping": {"ord.*": "x", "orders": "y"}}, "y"),
    ],
)
def test_routing_names_the_target(tmp_path: Path, sink: Any, target: str) -> None:
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["orders"], features=ALL_KEPT, sink=sink)
    assert through(pipeline).target_topic == target


def test_the_partition_is_the_sources_or_left_to_the_producer(tmp_path: Path) -> None:
    for partition, expected in (("source", 3), ("producer", None)):
        pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["orders"], partition=partition)
        assert through(pipeline).target_partition == expected


def test_a_topic_without_an_entry_is_refused(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ".*", sink={"staticMapping": {"other": "x"}})
    with pytest.raises(Refused, match="no entry for the selected topic 'orders'"):
        through(pipeline)
