"""Groups of a real cluster: states, kinds, stable offsets of many at once."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException

from k2k_assets.control.group_versions import Version
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.source_groups import SourceGroups
from k2k_assets.groups.target_groups import TargetGroups
from k2k_assets.kafka import group_reader
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.groups import CommittedOffset, GroupKind
from k2k_assets.pipeline.sections.group_selection import GroupSelection
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.jars import fetch_jars
from k2k_assets_tests.support.brokers.groups import commit, delete_group, member, open_offset_transaction
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_topic, unique

pytestmark = pytest.mark.integration


@pytest.fixture
def source(clusters: KafkaSandbox) -> Iterator[Cluster]:
    with Cluster("source", {"bootstrap.servers": clusters.source_servers}) as cluster:
        yield cluster


def test_offsets_and_states_of_many_groups(source: Cluster) -> None:
    servers, prefix = source.servers, unique("many")
    topic, other = create_topic(servers, unique("mapped"), 3), create_topic(servers, unique("other"))
    t0, t1, o0 = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(other, 0)
    for number in range(group_reader.IN_FLIGHT + 20):
        commit(servers, f"{prefix}-{number}", {t0: number, o0: 7})
    commit(servers, f"{prefix}-elsewhere", {o0: 3})
    commit(servers, f"{prefix}-meta", {t1: 5}, "of the application")
    commit(servers, f"{prefix}-deleted", {t0: 5})
    delete_group(servers, f"{prefix}-deleted")
    commit(servers, unique("not-selected"), {t0: 5})
    with (
        member(servers, f"{prefix}-classic", topic, "classic") as one,
        member(servers, f"{prefix}-kip848", topic, "consumer") as two,
    ):
        seen = SourceGroups(source, GroupSelection(f"{prefix}-.*")).observe([topic])
        states = {name.removeprefix(f"{prefix}-"): state for name, state in seen.states.items()}
        assert (states["classic"].kind, states["classic"].active) == (GroupKind.CLASSIC, True)
        assert (states["kip848"].kind, states["kip848"].active) == (GroupKind.CONSUMER, True)
        assert one.assignment()
        assert two.assignment()
    assert not states["1"].active
    assert "deleted" not in states
    assert seen.failed == {}
    found = {name.removeprefix(f"{prefix}-"): group.offsets for name, group in seen.groups.items()}
    assert set(found) == {"meta", *map(str, range(group_reader.IN_FLIGHT + 20))}
    assert found["17"] == {t0: CommittedOffset(17)}
    assert found["meta"] == {t1: CommittedOffset(5, "of the application")}
    after = SourceGroups(source, GroupSelection((f"{prefix}-kip848", f"{prefix}-17"))).observe([topic])
    assert set(after.states) == {f"{prefix}-kip848", f"{prefix}-17"}
    assert not after.states[f"{prefix}-kip848"].active


def test_offsets_in_an_open_transaction_are_waited_for(source: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    servers, group = source.servers, unique("transactional")
    topic = create_topic(servers, unique("t"), 2)
    t0, t1 = TopicPartition(topic, 0), TopicPartition(topic, 1)
    commit(servers, group, {t0: 1, t1: 1})
    pending = open_offset_transaction(servers, group, {t0: 2})
    monkeypatch.setattr(group_reader, "SETTLE_SECONDS", 0.1)
    seen = group_reader.fetch_offsets_here(source, [group])
    assert seen.groups[group].offsets == {t1: CommittedOffset(1)}
    assert seen.groups[group].unstable == {t0}
    assert "are pending in an open transaction" in seen.failed[group]
    assert str(t0) in seen.failed[group]
    pending.commit_transaction(10)
    monkeypatch.setattr(group_reader, "SETTLE_SECONDS", 10)
    seen = group_reader.fetch_offsets_here(source, [group])
    assert seen.groups[group].offsets == {t0: CommittedOffset(2), t1: CommittedOffset(1)}


def _commit_without_a_name(servers: str, topic: str) -> None:
    """As consumers before 2.2 do that have no group.id: OffsetCommit, version 2, by hand, since clients refuse it."""

    def text(value: str) -> bytes:
        return struct.pack(">h", len(value)) + value.encode()

    body = text("") + struct.pack(">i", -1) + text("") + struct.pack(">qi", -1, 1)
    body += text(topic) + struct.pack(">iiq", 1, 0, 3) + text("")
    request = struct.pack(">hhi", 8, 2, 1) + text("test") + body
    host, port = servers.split(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = connection.makefile("rb")
        (length,) = struct.unpack(">i", answer.read(4))
        assert answer.read(length)[-2:] == b"\0\0", "refused"


def test_the_group_without_a_name(source: Cluster) -> None:
    """The client cannot ask about it; it must not keep the others from being looked at."""
    servers, group = source.servers, unique("beside")
    t0 = TopicPartition(create_topic(servers, unique("t")), 0)
    commit(servers, group, {t0: 5}, "k2k_3.4")
    _commit_without_a_name(servers, t0.topic)
    try:
        seen = SourceGroups(source, GroupSelection(f"|{group}")).observe([t0.topic])
        assert (set(seen.groups), seen.not_handled, seen.failed) == ({group}, ("",), {})
        assert Version(3, 4) in TargetGroups(source).committed_versions("k2k_")
    finally:
        delete_topic(servers, t0.topic)  # and its commit with it


def test_a_partition_that_gives_an_error_is_not_one_without_a_commit(
    source: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    monkeypatch.setattr(group_reader, "SETTLE_SECONDS", 0.1)

    def answer(*_: object, **__: object) -> dict[str, Future[Any]]:
        done: Future[Any] = Future()
        error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
        done.set_result(
            SimpleNamespace(
                topic_partitions=[
                    SimpleNamespace(topic="t", partition=0, offset=4, metadata="", leader_epoch=None, error=None),
                    SimpleNamespace(topic="t", partition=1, offset=-1001, metadata=None, error=error),
                ]
            )
        )
        return {"g": done}

    monkeypatch.setattr(source.admin, "list_consumer_group_offsets", answer)
    seen = group_reader.fetch_offsets_here(source, ["g"])
    assert seen.groups["g"].offsets == {t0: CommittedOffset(4)}
    assert seen.groups["g"].unstable == {t1}
    assert "TOPIC_AUTHORIZATION_FAILED" in seen.failed["g"]


def test_what_the_target_holds(clusters: KafkaSandbox) -> None:
    """Commits, groups that do not exist, and the newest version that a mapper has written beside offsets."""
    servers, group = clusters.target_servers, unique("held")
    t0 = TopicPartition(create_topic(servers, unique("t")), 0)
    commit(servers, group, {t0: 4}, "here-77.8")
    with Cluster("target", {"bootstrap.servers": servers}) as cluster:
        target = TargetGroups(cluster)
        absent = unique("absent")
        seen = target.observe([group, absent])
        assert seen.groups[group].offsets == {t0: CommittedOffset(4, "here-77.8")}
        assert seen.groups[absent].offsets == {}
        assert absent not in seen.states
        assert target.committed_versions("here-") == {Version(77, 8)}
        assert target.committed_versions("nobody's-") == set()


@pytest.mark.slow
def test_share_groups_are_told_apart(source: Cluster, tmp_path: Path) -> None:
    javac = shutil.which("javac")
    if javac is None:
        pytest.skip("only a JDK can make a share group: librdkafka has no client for them")
    servers, group = source.servers, unique("share")
    topic = create_topic(servers, unique("t"))
    program = tmp_path / "Share.java"
    program.write_text(_SHARE)
    command = ["java", "-cp", f"{fetch_jars()}/*", str(program), servers, group, topic]
    subprocess.run(command, check=True, timeout=300, capture_output=True)

    def listed() -> bool:
        seen = SourceGroups(source, GroupSelection(".*")).observe([topic])
        assert group not in seen.states
        return group in seen.not_handled

    wait_until(listed, 120, "the share group to be listed")
    assert SourceGroups(source, GroupSelection("another.*")).observe([topic]).not_handled == ()
    # On the target nothing may be committed for it.
    assert TargetGroups(source).observe([group]).states[group].kind is GroupKind.OTHER


def test_a_cluster_that_does_not_answer(clusters: KafkaSandbox) -> None:
    with Cluster("target", {"bootstrap.servers": "127.0.0.1:1"}, timeout=1) as nobody:
        with pytest.raises(ClusterUnreachable, match=r"target cluster at 127\.0\.0\.1:1 does not answer"):
            TargetGroups(nobody).states()
        with pytest.raises(ClusterUnreachable):
            group_reader.fetch_offsets(nobody, ["g"])


def test_one_group_that_cannot_be_read_does_not_stop_the_others(
    source: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers, good, bad = source.servers, unique("good"), unique("bad")
    t0 = TopicPartition(create_topic(servers, unique("t")), 0)
    commit(servers, good, {t0: 1})
    real = source.admin.list_consumer_group_offsets

    def refuse_one(question: list[ConsumerGroupTopicPartitions], **rest: object) -> object:
        if question[0].group_id != bad:
            return real(question, **rest)
        refused: Future[object] = Future()
        refused.set_exception(KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)))
        return {bad: refused}

    monkeypatch.setattr(source.admin, "list_consumer_group_offsets", refuse_one)
    seen = group_reader.fetch_offsets_here(source, [bad, good])
    assert seen.groups[good].offsets == {t0: CommittedOffset(1)}
    assert "GROUP_AUTHORIZATION_FAILED" in seen.failed[bad]


def test_groups_whose_coordinator_is_gone_do_not_hold_up_the_others(
    source: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are, and wherever they come in the order."""
    servers, good = source.servers, unique("good")
    t0 = TopicPartition(create_topic(servers, unique("t")), 0)
    commit(servers, good, {t0: 1})
    real = source.admin.list_consumer_group_offsets
    gone = [unique("gone") for _ in range(2 * group_reader.IN_FLIGHT + 5)]
    asked: dict[str, Future[object]] = {}

    def answer_one(question: list[ConsumerGroupTopicPartitions], **rest: object) -> object:
        group = question[0].group_id
        if group == good:
            found = real(question, **rest)
            for waiting in asked.values():
                waiting.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
            return found
        asked[group] = Future()
        return {group: asked[group]}

    monkeypatch.setattr(source.admin, "list_consumer_group_offsets", answer_one)
    seen = group_reader.fetch_offsets_here(source, [*gone, good])
    assert seen.groups[good].offsets == {t0: CommittedOffset(1)}
    assert set(seen.failed) == set(gone)


def test_more_groups_have_more_time(source: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part has a deadline of its own; one of which nobody answers is told, and the others count."""
    monkeypatch.setattr(group_reader, "AT_ONCE", 2)
    servers, names = source.servers, [unique("part") for _ in range(5)]
    t0 = TopicPartition(create_topic(servers, unique("t")), 0)
    for number, name in enumerate(names):
        commit(servers, name, {t0: number})
    parts: list[list[str]] = []

    def apart(function: Any, groups: list[str], *rest: Any) -> Any:
        parts.append(groups)
        if len(parts) == 2:
            raise ClusterUnreachable("nobody answers")
        return function(source, groups, *rest)

    monkeypatch.setattr(source, "apart", apart)
    found = group_reader.fetch_offsets(source, names)
    assert parts == [names[:2], names[2:4], names[4:]]
    assert set(found.groups) == {*names[:2], names[4]}
    assert found.failed == dict.fromkeys(names[2:4], "nobody answers")


_SHARE = """
import java.time.Duration; import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
public class Share {
  public static void main(String[] args) {
    Properties p = new Properties();
    p.put("bootstrap.servers", args[0]); p.put("group.id", args[1]);
    var bytes = new ByteArrayDeserializer();
    try (var consumer = new KafkaShareConsumer<byte[], byte[]>(p, bytes, bytes)) {
      consumer.subscribe(List.of(args[2]));
      for (int i = 0; i < 5; i++) consumer.poll(Duration.ofSeconds(2));
    }
  }
}
"""
