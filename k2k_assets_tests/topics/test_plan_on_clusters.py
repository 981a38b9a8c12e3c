"""`k2k topics plan` and `apply` on real clusters: what is shown, what is done, and what is never done unasked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from k2k_assets.cli.main import run
from k2k_assets.core.deadline import wait_until
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.offset_ranges import OffsetRange, read_range
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.principals import acls_of, binding
from k2k_assets.topics.wanted import TopicSettings, topic_settings
from k2k_assets_tests.permissions.permissions_fixture import PermissionsFixture
from k2k_assets_tests.support.brokers import kafka, secure
from k2k_assets_tests.support.brokers.kafka import create_topic, set_config, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import write_pipeline

pytestmark = pytest.mark.integration

EVERYTHING = ("--partitions", "--min-insync-replicas", "--reset-configs")


def settings(cluster: Cluster, names: list[str]) -> dict[str, TopicSettings]:
    return topic_settings(cluster, names)


def planned(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[str]]:
    """Exit code and lines of `k2k topics plan`."""
    code = run(["topics", "plan", "-f", str(path), *options])
    return code, capsys.readouterr().out.splitlines()


class Drifted:
    """Topics whose copies are not what they have to be like."""

    def __init__(self, directory: Path, source: Cluster, target: Cluster) -> None:
        self.fine, self.missing, self.drifted, self.narrow = (unique(n) for n in ("fine", "missing", "drifted", "wide"))
        self.copies = [f"copy.{name}" for name in (self.drifted, self.fine, self.narrow)]
        config = {"retention.ms": "7000000", "max.message.bytes": "5000000"}
        for name in (self.fine, self.missing, self.drifted):
            create_topic(source.servers, name, 2, config)
        create_topic(source.servers, self.narrow, 4)
        create_topic(target.servers, f"copy.{self.fine}", 3, {**config, "min.insync.replicas": "1"})
        drifted = {"retention.ms": "8000000", "segment.ms": "70000", "min.insync.replicas": "2", "retention.bytes": "9"}
        create_topic(target.servers, f"copy.{self.drifted}", 2, drifted)
        create_topic(target.servers, f"copy.{self.narrow}", 1)
        common = {"bootstrap.servers": target.servers}
        rules = [{"pattern": "drifted.*", "properties": {"config": {"min.insync.replicas": 1}}}]
        self.file = write_pipeline(
            directory,
            source.servers,
            target.servers,
            [self.fine, self.missing, self.drifted, self.narrow],
            sink={"prefix": "copy."},
            topicCreation={"replication": {"rules": rules}},
            target={"kafka": {"common": common, "topicPropsExclusionList": ["retention.bytes"]}},
        )


def test_from_a_difference_to_none(
    tmp_path: Path, source: Cluster, target: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    world = Drifted(tmp_path, source, target)
    before = settings(target, world.copies)

    assert planned(world.file, capsys) == (
        7,
        [
            f"copy.{world.drifted}",
            "  ~ max.message.bytes: 1048588 -> 5000000",
            "  ! min.insync.replicas: 2 -> 1   not touched: not without --min-insync-replicas",
            "  ~ retention.ms: 8000000 -> 7000000",
            "  ! segment.ms: 70000 -> (default)   not touched: not without --reset-configs",
            f"copy.{world.missing}",
            "  + 2 partitions, replication factor 1, max.message.bytes=5000000, retention.ms=7000000",
            f"copy.{world.narrow}",
            "  ! partitions: 1 -> 4   not touched: not without --partitions",
            "4 topics: 1 to create, 2 to change, 3 not touched",
        ],
    )
    assert settings(target, [*world.copies, f"copy.{world.missing}"]) == before

    assert run(["topics", "apply", "-f", str(world.file), "-y"]) == 0
    assert capsys.readouterr().out.endswith("\n3 changes made\n")
    kept = {"segment.ms": "70000", "min.insync.replicas": "2", "retention.bytes": "9"}
    changed = {"retention.ms": "7000000", "max.message.bytes": "5000000"}
    # A broker answers by what it has heard of its controller, which may be a moment late.
    drifted = f"copy.{world.drifted}"
    wait_until(lambda: settings(target, [drifted])[drifted].config == {**kept, **changed}, 120, "the new settings")
    after = settings(target, [*world.copies, f"copy.{world.missing}"])
    assert after[f"copy.{world.fine}"] == before[f"copy.{world.fine}"]
    assert after[f"copy.{world.narrow}"].partitions == 1
    assert after[f"copy.{world.missing}"].config == changed
    code, lines = planned(world.file, capsys)
    assert (code, lines[-1]) == (7, "4 topics: 0 to create, 0 to change, 3 not touched")

    assert run(["topics", "apply", "-f", str(world.file), *EVERYTHING]) == 0
    assert capsys.readouterr().out.endswith("\n3 changes made\n")
    wait_until(lambda: planned(world.file, capsys) == (0, ["4 topics: nothing to do"]), 120, "nothing to do")
    last = settings(target, world.copies)
    assert last[f"copy.{world.drifted}"].config == {**changed, "min.insync.replicas": "1", "retention.bytes": "9"}
    assert last[f"copy.{world.narrow}"].partitions == 4
    assert run(["topics", "apply", "-f", str(world.file), *EVERYTHING]) == 0
    assert capsys.readouterr().out == "4 topics: nothing to do\n"


def test_as_json_with_the_options_that_are_asked_for(
    tmp_path: Path, source: Cluster, target: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    world = Drifted(tmp_path, source, target)
    code, lines = planned(world.file, capsys, "--json", "--partitions")
    found = json.loads("\n".join(lines))
    assert (code, found["topics"], found["acls"]) == (7, 4, [])
    touched = {each["what"]: each["notTouched"] is None for each in found["differences"]}
    assert touched == {
        "max.message.bytes": True,
        "min.insync.replicas": False,
        "retention.ms": True,
        "segment.ms": False,
        "topic": True,
        "partitions": True,
    }


def test_what_one_topic_does_not_take_keeps_no_other_from_being_put_right(
    tmp_path: Path, source: Cluster, target: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = sorted([unique("topic"), unique("topic")])
    for name in (good, bad):
        create_topic(source.servers, name, 1, {"retention.ms": "7000000"})
        create_topic(target.servers, name)
    rules = [{"pattern": bad, "properties": {"config": {"segment.bytes": "-1"}}}]
    creation = {"replication": {"rules": rules}}
    path = write_pipeline(tmp_path, source.servers, target.servers, [good, bad], topicCreation=creation)
    assert run(["topics", "apply", "-f", str(path)]) == 3
    said = capsys.readouterr().err
    assert f"configs were not changed of the topics '{bad}'" in said
    assert "INVALID_CONFIG" in said
    wanted = {good: {"retention.ms": "7000000"}, bad: {}}
    wait_until(lambda: target.topic_configs([good, bad]) == wanted, 120, "the broker to know what the controller took")


def test_a_topic_that_the_target_does_not_create_keeps_nothing_else_from_being_done(
    tmp_path: Path, source: Cluster, target: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broker creates no `a_b` beside an `a.b`, nor the other way round."""
    drifted, fresh, first, second = (unique(name) for name in ("drifted", "fresh", "odd", "odd"))
    odd = [f"{first}.x", f"{second}_x"]
    for name in (drifted, fresh, *odd):
        create_topic(source.servers, name, 2, {"retention.ms": "7000000"})
    create_topic(target.servers, drifted)
    for name in (f"{first}_x", f"{second}.x"):
        create_topic(target.servers, name)
    path = write_pipeline(tmp_path, source.servers, target.servers, [drifted, fresh, *odd])
    assert run(["topics", "apply", "-f", str(path), "--partitions"]) == 3
    said = capsys.readouterr().err
    assert all(f"did not create the topic '{name}'" in said for name in odd), said
    after = settings(target, [drifted, fresh, *odd])
    assert after.keys() == {drifted, fresh}
    assert {(each.partitions, each.config["retention.ms"]) for each in after.values()} == {(2, "7000000")}


def test_more_replicas_are_left_to_kafkas_own_tool(
    tmp_path: Path, source: Cluster, target: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = unique("replicas")
    for cluster in (source, target):
        create_topic(cluster.servers, topic)
    creation = {"replication": {"common": {"replication": 2, "config": {"min.insync.replicas": 2}}}}
    path = write_pipeline(tmp_path, source.servers, target.servers, [topic], topicCreation=creation)
    code, lines = planned(path, capsys, *EVERYTHING)
    assert code == 7
    assert "nobody could write" in lines[1]
    assert "kafka-reassign-partitions.sh" in lines[2]
    assert run(["topics", "apply", "-f", str(path), *EVERYTHING]) == 0
    assert target.topic_configs([topic]) == {topic: {}}
    capsys.readouterr()
    assert run(["topics", "plan", "-f", str(path), "--reassignment", str(tmp_path / "moves.json")]) == 3
    assert f"1 broker: too few for the replication factor of {topic}" in capsys.readouterr().err


def test_the_plan_is_shown_though_the_file_of_moves_cannot_be_written(
    tmp_path: Path, source: Cluster, target: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = create_topic(source.servers, unique("orders"))
    path = write_pipeline(tmp_path, source.servers, target.servers, [topic])
    moves = tmp_path / "no" / "moves.json"
    assert run(["topics", "plan", "-f", str(path), "--reassignment", str(moves)]) == 3
    said = capsys.readouterr()
    assert "1 to create" in said.out
    assert f"{moves} cannot be written: No such file or directory" in said.err.replace("\n", "")


def test_a_copy_into_bookkeeping_is_refused(
    tmp_path: Path, source: Cluster, target: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = create_topic(source.servers, unique("orders"))
    coordination = {"commit": {"topic": "books"}}
    path = write_pipeline(
        tmp_path, source.servers, target.servers, [topic], sink={"static": "books"}, coordination=coordination
    )
    assert run(["topics", "apply", "-f", str(path)]) == 3
    assert "which holds bookkeeping" in capsys.readouterr().err


def test_a_source_without_acls_is_told_as_such(
    tmp_path: Path, source: Cluster, target: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = create_topic(source.servers, unique("orders"))
    create_topic(target.servers, topic)
    path = write_pipeline(tmp_path, source.servers, target.servers, [topic])
    assert run(["topics", "plan", "-f", str(path), "--acls"]) == 0
    assert "without an authorizer everybody may read there" in " ".join(capsys.readouterr().err.split())


def test_what_a_source_changes_is_seen(
    tmp_path: Path, source: Cluster, target: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = create_topic(source.servers, unique("orders"))
    path = write_pipeline(tmp_path, source.servers, target.servers, [topic])
    assert run(["topics", "apply", "-f", str(path)]) == 0
    capsys.readouterr()
    assert planned(path, capsys)[0] == 0
    set_config(source.servers, topic, "retention.ms", "123456")
    wait_until(lambda: planned(path, capsys)[0] == 7, 120, "the changed config to be seen")


@pytest.mark.slow
def test_who_reads_the_source_reads_the_copy_and_nobody_writes(
    secure_clusters: KafkaSandbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixture = PermissionsFixture(secure_clusters, tmp_path)
    topic = create_topic(fixture.servers("source"), unique("orders"))
    kafka.produce(fixture.servers("source"), topic, [b"one", b"two"])
    prefix = f"{unique('copy')}."
    copied = f"{prefix}{topic}"

    def denied(user: str) -> AclBinding:
        kind, deny = ResourcePatternType.LITERAL, AclPermissionType.DENY
        return AclBinding(ResourceType.TOPIC, topic, kind, f"User:{user}", "*", AclOperation.READ, deny)

    own = {
        binding(fixture.user, ResourceType.TOPIC, topic[:-2], AclOperation.READ, ResourcePatternType.PREFIXED),
        binding(fixture.user, ResourceType.TOPIC, topic, AclOperation.WRITE),
    }
    fixture.grant({"source": own})
    eve = unique("eve")
    others: list[Any] = [denied(eve)]
    secure.admin(fixture.brokers["source"]).create_acls(others)
    wait_until(lambda: acls_of(secure.admin(fixture.brokers["source"]), eve), 120, "the ACL to be known")
    here, there = (secure.mtls(fixture.brokers[role], "admin") for role in ("source", "target"))
    path = secure.write_secure_pipeline(tmp_path, here, there, [topic], sink={"prefix": prefix})
    lines = [f"  + {copied}: User:{eve} may not READ", f"  + {copied}: User:{fixture.user} may READ"]

    code, shown = planned(path, capsys, "--acls")
    assert code == 7
    assert sorted(line for line in shown if copied in line and "User:" in line) == lines
    assert shown[-1] == "1 topic: 1 to create, 0 to change, 2 ACLs to create"
    assert planned(path, capsys)[1][-1] == "1 topic: 1 to create, 0 to change", "nobody asked for ACLs"

    assert run(["topics", "apply", "-f", str(path), "--acls"]) == 0
    admin = secure.admin(fixture.brokers["target"])
    granted = {binding(fixture.user, ResourceType.TOPIC, copied, AclOperation.READ)}
    wait_until(lambda: acls_of(admin, fixture.user) == granted, 120, "the ACL to be known")
    capsys.readouterr()
    assert planned(path, capsys, "--acls") == (0, ["1 topic: nothing to do"])

    assert copy(load_pipeline([path])).stopped == {}
    reader = fixture.pipeline([topic]).client_properties("target", "consumer")
    read = [m.value() for chunk in read_range(reader, OffsetRange(copied, 0, 0, 2)) for m in chunk]
    assert read == [b"one", b"two"]
