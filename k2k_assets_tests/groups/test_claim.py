"""Claims of mappers: the later one is right, and the replicator ignores them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.assignment_state import Assignments
from k2k_assets.control.commit_record import is_other_kind
from k2k_assets.control.mapper_claims import MapperClaim, MapperHeartbeat
from k2k_assets.core.any_group import ANY_GROUP
from k2k_assets.core.errors import ClusterUnreachable, Refused, Superseded
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups import claim as module
from k2k_assets.groups.claim import MapperClaims
from k2k_assets.groups.committer import SHARDS, mapper_id
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.topic_follower import Replaced
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.fake_cluster import FakeCluster
from k2k_assets_tests.support.memory.fake_log import play


def test_the_replicator_passes_them_over() -> None:
    for record in (MapperClaim.new("p", "g"), MapperHeartbeat.new("p", "g", None)):
        assignments = Assignments()
        assignments.apply("g", 3, record.key_bytes(), record.value_bytes())
        assert assignments == Assignments()
        assert is_other_kind(record.key_bytes()), "commit and assignment records may share a topic"


@pytest.mark.integration
def test_the_later_one_is_right(clusters: KafkaSandbox, tmp_path: Path) -> None:
    servers = clusters.target_servers
    pipeline = make_pipeline(tmp_path, clusters.source_servers, servers, ["any"])
    topic = pipeline.coordination.assignment.topic
    with Cluster("target", {"bootstrap.servers": servers}) as target:
        with pytest.raises(Refused, match="does not exist"):
            MapperClaims(pipeline, target)
        create_topic(servers, topic)
        with MapperClaims(pipeline, target) as first, MapperClaims(_named(pipeline, "other"), target) as other:
            other.write()
            first.write()
            first.ensure_newest()
            other.ensure_newest()  # another pipeline's mapper does not compete
            with MapperClaims(pipeline, target) as second:
                assert second.write() == 2
                second.ensure_newest()
                with pytest.raises(
                    Superseded, match=r"a newer offset mapper .* process \d+ on .* \(claim 2, this one is 1"
                ):
                    first.ensure_newest()
                second.forget_older()
                first_key = read_all(servers, topic)[1].key
                assert [(r.key, r.value) for r in read_all(servers, topic)][3:] == [(first_key, None)]
                second.ensure_newest()
                with pytest.raises(Superseded):
                    first.ensure_newest()
        produce(servers, topic, [(b"not json", b"")], partition=0)
        with MapperClaims(pipeline, target) as third:
            for _ in range(2):  # a repeated call does not skip it
                with pytest.raises(Refused, match=f"{topic}-0@4"):
                    third.ensure_newest()
        policy = pipeline.error_handling.model_copy(update={"on_control_message_deserialization_error": "ignore"})
        with MapperClaims(pipeline.model_copy(update={"error_handling": policy}), target) as fourth:
            fourth.write()
            fourth.ensure_newest()


@pytest.mark.integration
def test_heartbeats_are_no_claims_and_those_of_long_ago_are_removed(clusters: KafkaSandbox, tmp_path: Path) -> None:
    servers = clusters.target_servers
    pipeline = make_pipeline(tmp_path, clusters.source_servers, servers, ["any"])
    topic = create_topic(servers, pipeline.coordination.assignment.topic)
    old = MapperHeartbeat(pipeline.name, pipeline.group, "old", "host", 1, time=1)
    new = MapperHeartbeat.new(pipeline.name, pipeline.group, "run")
    other = MapperHeartbeat.new("another", pipeline.group, None)
    with Cluster("target", {"bootstrap.servers": servers}) as target, MapperClaims(pipeline, target) as claims:
        claims.write()
        produce(servers, topic, [(beat.key_bytes(), beat.value_bytes()) for beat in (old, new, other)], partition=0)
        claims.ensure_newest()
        assert list(claims.heartbeats().values()) == [old, new]
        claims.forget_older()
        assert list(claims.heartbeats().values()) == [new]


@pytest.mark.integration
def test_a_pipeline_of_the_same_name_is_no_rival_unless_it_moves_the_same_groups(
    clusters: KafkaSandbox, tmp_path: Path
) -> None:
    servers = clusters.target_servers
    pipeline = make_pipeline(tmp_path, clusters.source_servers, servers, ["any"])
    create_topic(servers, pipeline.coordination.assignment.topic)
    own = pipeline.group
    with (
        Cluster("target", {"bootstrap.servers": servers}) as target,
        MapperClaims(pipeline, target) as first,
        MapperClaims(_of_group(pipeline, "another"), target) as another,
    ):
        first.write()
        assert first.rivals() == {None}, "the ids of older releases are fenced once"
        another.write()
        assert another.rivals() == {None}
        another.forget_older()
        first.ensure_newest()
        with MapperClaims(pipeline, target) as second:
            second.write()
            assert second.rivals() == set()
            with pytest.raises(Superseded):
                first.ensure_newest()
            another.ensure_newest()
            # As an older release writes it: the record does not name the groups that it moves.
            old = MapperClaim(pipeline.name, None, "m", "there", 1, 1)
            produce(servers, pipeline.coordination.assignment.topic, [(old.key_bytes(), old.value_bytes())], 0)
            for claims in (second, another):
                with pytest.raises(Superseded, match="on there"):
                    claims.ensure_newest()
        with MapperClaims(_of_group(pipeline, ANY_GROUP), target) as of_all:
            of_all.write()
            assert of_all.rivals() == {None, own, "another"}


_NAMES = st.text("ab.1", min_size=1, max_size=5)


@given(*[st.tuples(_NAMES, _NAMES, st.integers(0, SHARDS - 1))] * 2)
def test_ids_of_mappers_of_two_pipelines_never_meet(one: tuple[str, str, int], two: tuple[str, str, int]) -> None:
    """They would fence each other for ever."""
    assert (mapper_id(*one) == mapper_id(*two)) == (one == two)
    assert mapper_id("a", "b.c", 0) != mapper_id("a.b", "c", 0)


@pytest.mark.parametrize("case", ["created anew", "emptied"])
def test_who_may_have_missed_a_claim_is_never_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """In a topic that was created anew offsets begin again: the claim of a newer mapper lies below."""
    logs = play(monkeypatch)
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["any"])
    topic = pipeline.coordination.assignment.topic
    at = TopicPartition(topic, 0)
    target = FakeCluster({topic: ("an-id", 1)}, starts={}, ends={at: 0})
    monkeypatch.setattr(module, "write_record", lambda *_: 3)
    claims = MapperClaims(pipeline, target)  # type: ignore[arg-type]
    claims.write()
    logs[-1].write(*[(b"{}", b"")] * 3)
    target._offsets["latest"] = {at: 3}
    claims.ensure_newest()
    if case == "created anew":
        target.topics[topic] = ("another-id", 1)
    else:
        target._offsets |= {"earliest": {at: 9}, "latest": {at: 9}}
        logs[-1].fails = ClusterUnreachable("out of range")
        with pytest.raises(ClusterUnreachable):
            claims.ensure_newest()
    for _ in range(2):
        with pytest.raises(Replaced, match="created anew" if case == "created anew" else "may be among them"):
            claims.ensure_newest()


def _of_group(pipeline: Pipeline, group: str) -> Pipeline:
    found = pipeline.model_copy()
    found.__dict__["group"] = group  # it is cached, and the copy has the cache
    assert (found.group, found.name) == (group, pipeline.name)
    return found


def _named(pipeline: Pipeline, name: str) -> Pipeline:
    return pipeline.model_copy(update={"name": name})
