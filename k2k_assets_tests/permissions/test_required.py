"""The list of permissions: its entries, and that the source is only read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.coordination.fencing_rules import transactional_id
from k2k_assets.groups.committer import mapper_id
from k2k_assets.permissions.names import NamePattern
from k2k_assets.permissions.principals import principal_of, who
from k2k_assets.permissions.required import PROGRAMS, Program, needs, programs_of, required
from k2k_assets.permissions.subjects import patterns
from k2k_assets.pipeline import Pipeline
from k2k_assets_tests.support.copies.pipelines import make_pipeline

_ALL = {"offsetMapping": "enabled", "autoCreateTopics": "enabled", "autoCreateControlTopics": "enabled"}
_LEAST = {
    "offsetMapping": "disabled",
    "autoCreateTopics": "disabled",
    "autoCreateControlTopics": "disabled",
    "validateControlTopicSettings": "disabled",
}


def pipeline(directory: Path, topics: Any = ("orders",), **rest: Any) -> Pipeline:
    return make_pipeline(directory, "s:9092", "t:9092", topics, **{"features": _ALL, **rest})


def acls(of: Pipeline, *programs: Program) -> set[tuple[str, str, str, str]]:
    return {
        (each.cluster, each.subject, str(each.pattern), each.operation) for each in required(of, programs or PROGRAMS)
    }


def test_the_least_that_copying_needs(tmp_path: Path) -> None:
    of = pipeline(tmp_path, features=_LEAST)
    control = of.coordination.commit.topic, of.coordination.assignment.topic
    assert acls(of, *programs_of(of)) == {
        ("source", "copied topics", "'orders'", "Read"),
        ("target", "target topics", "'orders'", "Read"),
        ("target", "target topics", "'orders'", "Write"),
        ("target", "target topics", "'orders'", "DescribeConfigs"),
        ("target", "commit topic", f"'{control[0]}'", "Read"),
        ("target", "commit topic", f"'{control[0]}'", "Write"),
        ("target", "assignment topic", f"'{control[1]}'", "Read"),
        ("target", "assignment topic", f"'{control[1]}'", "Write"),
        ("target", "slots", f"'k2k.{of.name}.{of.group}....'", "Write"),
    }


@pytest.mark.parametrize(
    ("feature", "added"),
    [
        (
            "autoCreateTopics",
            {
                ("source", "copied topics", "DescribeConfigs"),
                ("target", "target topics", "Create"),
                ("target", "target topics", "Alter"),
            },
        ),
        (
            "autoCreateControlTopics",
            {("target", "commit topic", "Create"), ("target", "assignment topic", "Create")},
        ),
        (
            "validateControlTopicSettings",
            {("target", "commit topic", "DescribeConfigs"), ("target", "assignment topic", "DescribeConfigs")},
        ),
        ("offsetMapping", {("target", "mapping topic", "Read"), ("target", "mapping topic", "Write")}),
        ("exactlyOnce", set()),
    ],
)
def test_what_a_feature_adds(tmp_path: Path, feature: str, added: set[tuple[str, str, str]]) -> None:
    def of(features: Mapping[str, str]) -> set[tuple[str, str, str]]:
        found = required(pipeline(tmp_path, features=features), ["replication"])
        return {(each.cluster, each.subject, each.operation) for each in found}

    assert of({**_LEAST, feature: "enabled"}) - of(_LEAST) == added


def test_on_the_source_nothing_is_written(tmp_path: Path) -> None:
    of = pipeline(tmp_path)
    source = {each[1:] for each in acls(of, "replication", "mapper", "checks") if each[0] == "source"}
    assert source == {
        ("copied topics", "'orders'", "Read"),
        ("copied topics", "'orders'", "DescribeConfigs"),
        ("consumer groups", "every name", "Describe"),
    }


def test_failback_is_never_part_of_what_a_pipeline_uses(tmp_path: Path) -> None:
    of = pipeline(tmp_path)
    assert programs_of(of) == ("replication", "mapper", "checks")
    assert ("source", "consumer groups", "every name", "Read") in acls(of, "failback")


def test_where_both_sides_are_written_the_mappings_of_the_way_back_are_read(tmp_path: Path) -> None:
    both = {**_ALL, "bidirectionalReplication": "enabled"}
    names = {"reverse": {"mappingTopic": "theirs"}}
    of = pipeline(tmp_path, features=both, bidirectional=names, coordination={"commit": {"topic": "progress"}})
    mappings = ("source", "reverse mapping topic", "'theirs'", "Read")
    wanted = {("source", "reverse commit topic", "'progress'", "Read"), mappings}
    assert all(wanted <= acls(of, program) for program in ("mapper", "checks", "failback"))
    assert mappings not in acls(of, "replication")
    apart = pipeline(tmp_path, features=both, errorHandling={"onForeignWriter": "fail"})
    # Where the source lost records, what is left of the pipeline back's copies is read there.
    reads = {each for each in acls(of, "mapper") if each[:2] == ("source", "copied topics")}
    assert reads == {("source", "copied topics", "'orders'", "Read")}
    assert ("source", "copied topics", "'orders'", "Read") not in acls(apart, "mapper")
    groups = acls(apart, "mapper", "checks", "failback")
    assert not {subject for _, subject, _, _ in groups} & {"reverse commit topic", "reverse mapping topic"}


@pytest.mark.parametrize("mappings", ["enabled", "disabled"])
def test_whoever_copies_both_ways_reads_which_marker_the_copies_have(tmp_path: Path, mappings: str) -> None:
    features = {**_ALL, "offsetMapping": mappings, "bidirectionalReplication": "enabled"}
    control = {"commit": {"topic": "mine"}, "assignment": {"topic": "claims"}}
    reverse = {"reverse": {"commitTopic": "theirs"}}
    of = pipeline(tmp_path, features=features, bidirectional=reverse, coordination=control)
    wanted = {
        ("source", "reverse commit topic", "'theirs'", "Read"),
        ("source", "reverse assignment topic", "'claims'", "Read"),
    }
    assert wanted <= acls(of, "replication")
    assert wanted <= acls(of, *programs_of(of))
    # It may belong to others, who do not permit it: the start warns of that, and copies.
    (demanded,) = {need.is_demanded for need in needs(of, "replication") if need.subject.startswith("reverse")}
    assert not demanded


def test_what_others_imply_is_left_out(tmp_path: Path) -> None:
    of = pipeline(tmp_path)
    describe = ("source", "copied topics", "'orders'", "Describe")
    assert describe in acls(of, "mapper")
    assert describe not in acls(of, "mapper", "checks")


def test_positions_are_shown_without_mappings_too(tmp_path: Path) -> None:
    of = pipeline(tmp_path, features={"offsetMapping": "disabled"})
    assert ("source", "copied topics", "'orders'", "Describe") in acls(of, "checks")


@pytest.mark.parametrize(
    ("topics", "sink", "expected"),
    [
        (["a", "b"], "source", ["a", "b"]),
        (["a"], {"prefix": "x.", "suffix": ".y"}, ["x.a.y"]),
        ("a.*", "source", [("a",)]),
        ("a.*", {"prefix": "x.", "suffix": ".y"}, [("x.a",)]),
        ("a|b", {"suffix": ".y"}, ["a.y", "b.y"]),
        (".*", {"prefix": "x."}, [("x.",)]),
        (".*", {"suffix": ".y"}, ["*"]),
        (".*", {"static": "all"}, ["all"]),
        (".*", {"staticMapping": {"a": "x", "b.*": "y", "c": "x"}}, ["x", "y"]),
        (["a", "bb"], {"staticMapping": {"a": "x", "b.*": "y", "c": "z"}}, ["x", "y"]),
    ],
)
def test_target_topics(tmp_path: Path, topics: Any, sink: Any, expected: list[Any]) -> None:
    of = pipeline(tmp_path, topics, sink=sink)
    wanted = [NamePattern(each) if isinstance(each, str) else NamePattern(each[0], prefixed=True) for each in expected]
    assert patterns(of, "target topics") == wanted


def test_the_ids_of_slots_and_mappers_begin_as_they_are_allowed(tmp_path: Path) -> None:
    of = pipeline(tmp_path)
    (slots,), (mapper,) = patterns(of, "slots"), patterns(of, "mapper")
    assert slots.covers(transactional_id(of.name, of.group, 12))
    assert not slots.covers(transactional_id(of.name, f"{of.group}x", 12))
    for group in (of.group, "any", None):
        assert mapper.covers(mapper_id(of.name, group, 3))
        assert not mapper.covers(mapper_id(f"{of.name}x", group, 3))


@pytest.mark.parametrize(
    ("properties", "principal", "words"),
    [
        ({}, "User:ANONYMOUS", "User:ANONYMOUS"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "k"},
            "User:k",
            "User:k",
        ),
        ({"security.protocol": "sasl_plaintext", "sasl.mechanisms": "PLAIN", "sasl.username": "k"}, "User:k", "User:k"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            None,
            "the principal of this client's credentials",
        ),
        (
            {"security.protocol": "SSL", "ssl.certificate.location": "c.pem"},
            None,
            "the principal of this client's certificate",
        ),
        ({"security.protocol": "SSL"}, "User:ANONYMOUS", "User:ANONYMOUS"),
    ],
)
def test_principals(properties: dict[str, str], principal: str | None, words: str) -> None:
    assert principal_of(properties) == principal
    assert who(properties) == words
