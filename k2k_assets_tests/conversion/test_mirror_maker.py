"""Conversion of MirrorMaker 2's settings."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from k2k_assets.cli.main import run
from k2k_assets.conversion.java_properties import parse_properties
from k2k_assets.conversion.mirror_maker import Conversion, convert
from k2k_assets.conversion.without_counterpart import reason_for
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.pipeline.java_regex import compile_java
from k2k_assets.pipeline.sections.group_selection import GroupSelection

CLUSTERS = """
clusters = A, B
A.bootstrap.servers = a1:9092, a2:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""


def converted(more: str, base: str = CLUSTERS) -> Conversion:
    (flow,) = convert(parse_properties(base + more)).flows
    return flow


def pipeline(more: str = "", base: str = CLUSTERS, *, folder: Path, variables: bool = True) -> Pipeline:
    path = folder / "converted.yaml"
    path.write_text(yaml.safe_dump(converted(more, base).document))
    return load_pipeline([path], variables=variables)


def test_a_flow_becomes_a_pipeline_with_all_that_a_record_has(tmp_path: Path) -> None:
    found = pipeline(folder=tmp_path)
    assert (found.name, found.group) == ("A-to-B", "k2k.A-to-B")
    features = found.features
    assert (features.exactly_once, features.header_replication, features.offset_mapping) == (True, True, True)
    assert found.client_properties("source", "admin")["bootstrap.servers"] == "a1:9092, a2:9092"
    assert found.client_properties("target", "admin")["bootstrap.servers"] == "b:9092"
    assert converted("").told == {}


def test_each_enabled_flow_is_one() -> None:
    both = convert(parse_properties(CLUSTERS + "B->A.enabled = TRUE"))
    assert [flow.flow for flow in both.flows] == ["A->B", "B->A"]
    one = convert(parse_properties(CLUSTERS + "B->A.enabled = false\nB->A.topics = x\nclusters = A, B, C\nC.ssl.x = 1"))
    assert one.told == {
        "B->A.enabled": "its flow is not enabled",
        "B->A.topics": "its flow is not enabled",
        "C.ssl.x": "the cluster takes part in no enabled flow",
    }


@pytest.mark.parametrize(
    ("more", "target"),
    [
        ("", "A.orders"),
        ("replication.policy.separator = _", "A_orders"),
        ("replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy", "orders"),
        ("A->B.replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy", "orders"),
    ],
)
def test_the_policy_names_the_target_topic(more: str, target: str, tmp_path: Path) -> None:
    assert pipeline(more, folder=tmp_path).routing.target_topic("orders") == target


def test_a_policy_of_the_users_is_told() -> None:
    flow = converted("replication.policy.class = com.example.Mine")
    assert "topics keep their names" in flow.told["replication.policy.class"]


@pytest.mark.parametrize(
    ("more", "chosen", "left_out"),
    [
        (
            "",
            ["orders", "a.b"],
            ["__consumer_offsets", "mm2-offsets.A.internal", "x.replica", "heartbeats", "B.orders"],
        ),
        ("topics = orders, pay.*\nA->B.topics.exclude = pay-old", ["orders", "payments"], ["other", "pay-old"]),
        ("topics = orders\nA->B.topics = pay.*", ["payments"], ["orders"]),
        ("topics.blacklist = x.*", ["y", "z.replica"], ["x1"]),
        ("topics = a|b", ["a", "b"], ["c"]),
        ("topics.exclude =", ["x.replica"], ["__consumer_offsets"]),
    ],
)
def test_topics_are_selected_as_mirror_maker_selects_them(
    more: str, chosen: list[str], left_out: list[str], tmp_path: Path
) -> None:
    selection = pipeline(more, folder=tmp_path).selection
    assert [name for name in (*chosen, *left_out) if selection.matches(name)] == chosen


def test_without_the_alias_in_names_nothing_tells_what_came_back(tmp_path: Path) -> None:
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    assert pipeline(identity, folder=tmp_path).selection.matches("B.orders")


RING = """
clusters = A, B, C
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
C.bootstrap.servers = c:9092
A->B.enabled = true
B->C.enabled = true
C->A.enabled = true
"""


def test_in_a_ring_a_topic_comes_back_nowhere(tmp_path: Path) -> None:
    """As in MirrorMaker 2, which looks through the whole name."""
    pipelines = {}
    for each in convert(parse_properties(RING)).flows:
        path = tmp_path / f"{each.name}.yaml"
        path.write_text(yaml.safe_dump(each.document))
        pipelines[each.flow] = load_pipeline([path])
    topics = {"A": {"orders", "B.x"}, "B": set[str](), "C": set[str]()}
    for _ in range(6):
        for flow, found in pipelines.items():
            source, target = flow.split("->")
            copied = {found.routing.target_topic(name) for name in topics[source] if found.selection.matches(name)}
            topics[target] |= copied
    assert topics == {"A": {"orders", "B.x"}, "B": {"A.orders"}, "C": {"B.A.orders"}}
    assert pipelines["A->B"].selection.matches("xB.orders"), "no part of its name is B"


def test_the_same_names_both_ways_do_not_go_round_in_circles(tmp_path: Path) -> None:
    identity = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    base = CLUSTERS + "B->A.enabled = true\n"
    both = convert(parse_properties(base + identity)).flows
    assert len(both) == 2
    for flow in both:
        path = tmp_path / f"{flow.name}.yaml"
        path.write_text(yaml.safe_dump(flow.document))
    loaded = [load_pipeline([tmp_path / f"{flow.name}.yaml"]) for flow in both]
    assert all(each.marker is not None and each.marker.mode == "cluster" for each in loaded)
    assert "leaves out those that come back" in both[0].told["B->A.enabled"]
    assert run(["validate", *(word for flow in both for word in ("-f", str(tmp_path / f"{flow.name}.yaml")))]) == 0
    assert all("bidirectional" not in flow.document for flow in convert(parse_properties(base)).flows)
    assert "bidirectional" not in converted(identity).document


def test_the_cluster_counts_more_than_the_flow_for_a_reader(tmp_path: Path) -> None:
    more = "A.consumer.auto.offset.reset = latest\nA->B.consumer.auto.offset.reset = earliest\n"
    assert pipeline(more, folder=tmp_path).client_properties("source", "consumer")["auto.offset.reset"] == "latest"
    more += "A->B.source.consumer.auto.offset.reset = earliest\n"
    assert pipeline(more, folder=tmp_path).client_properties("source", "consumer")["auto.offset.reset"] == "earliest"


@pytest.mark.parametrize(("factor", "expected"), [("3", 3), ("-1", None)])
def test_the_replication_factor_of_copies(factor: str, expected: int | None, tmp_path: Path) -> None:
    found = pipeline(f"replication.factor = {factor}", folder=tmp_path)
    assert found.topic_creation.replicated_topic("orders").replication == expected
    assert "replication.factor" not in converted(f"replication.factor = {factor}").told


@pytest.mark.parametrize("seconds", ["-1", "0"])
def test_an_interval_that_switches_off_is_the_default(seconds: str, tmp_path: Path) -> None:
    more = f"refresh.topics.interval.seconds = {seconds}\nsync.group.offsets.interval.seconds = {seconds}\n"
    assert pipeline(more, folder=tmp_path).sync == pipeline("", folder=tmp_path).sync


def test_a_flow_without_groups_moves_none(tmp_path: Path) -> None:
    found = pipeline("A->B.groups =\ngroups = billing", folder=tmp_path)
    assert not any(map(GroupSelection(found.groups.consumer_groups).matches, ("billing", "", "any")))


def test_groups_sizes_and_times(tmp_path: Path) -> None:
    more = """
groups = billing.*
groups.exclude = billing-test
tasks.max = 7
refresh.topics.interval.seconds = 60
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 20
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 3
B.exactly.once.source.support = enabled
"""
    found = pipeline(more, folder=tmp_path)
    assert found.groups.consumer_groups == "(?!(?:billing-test)$)billing.*"
    assert found.groups.poll_interval.total_seconds() == 20
    assert found.configuration.partition_parallelism == 7
    assert found.sync.metadata_interval.total_seconds() == 60
    assert found.topic_creation.control_topic("commit").replication == 3
    assert converted(more).told == {
        "sync.group.offsets.enabled": "a separate program moves groups: `k2k-offset-mapping start -f FILE`"
    }
    assert not pipeline("emit.checkpoints.enabled = false", folder=tmp_path).features.offset_mapping


def test_client_properties_go_where_mirror_maker_uses_them(tmp_path: Path) -> None:
    more = """
security.protocol = SASL_SSL
A.security.protocol = SASL_PLAINTEXT
sasl.mechanism = PLAIN
sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p$${1}";
A.consumer.fetch.min.bytes = 7
A->B.consumer.auto.offset.reset = latest
B.producer.compression.type = zstd
A->B.producer.override.linger.ms = 3
B.consumer.fetch.min.bytes = 5
A.producer.acks = 1
A->B.producer.acks = 1
B.ssl.truststore.type = PEM
B.ssl.truststore.location = /etc/ca.pem
"""
    found = pipeline(more, folder=tmp_path)
    assert found.client_properties("source", "admin")["security.protocol"].lower() == "sasl_plaintext"  # type: ignore[union-attr]
    consumer, producer = found.client_properties("source", "consumer"), found.client_properties("target", "producer")
    assert (str(consumer["fetch.min.bytes"]), consumer["auto.offset.reset"]) == ("7", "latest")
    assert (consumer["sasl.username"], consumer["sasl.password"]) == ("u", "p$${1}")
    assert (producer["compression.type"], str(producer["linger.ms"])) == ("zstd", "3")
    assert producer["ssl.ca.location"] == "/etc/ca.pem"
    flows = convert(parse_properties(CLUSTERS + more))
    assert flows.told == {
        "B.consumer.fetch.min.bytes": "the engine reads only its control topics on the target",
        "A.producer.acks": "nothing is written to the source",
    }
    assert set(flows.flows[0].told) == {"A->B.producer.acks"}


@pytest.mark.parametrize("prefix", ["A.consumer", "A->B.consumer", "A->B.source.consumer"])
def test_the_group_of_the_reader_is_not_the_name_of_the_progress(prefix: str) -> None:
    flows = convert(parse_properties(f"{CLUSTERS}{prefix}.group.id = mm2"))
    (flow,) = flows.flows
    assert flow.document["source"]["kafka"]["consumer"] == {"group.id": "k2k.A-to-B"}
    assert "names the progress" in {**flows.told, **flow.told}[f"{prefix}.group.id"]


def test_what_librdkafka_cannot_do_is_left_out_and_told_without_its_value(tmp_path: Path) -> None:
    more = """
A.ssl.truststore.location = /etc/trust.jks
A.ssl.truststore.password = hunter2
A.consumer.isolation.level = read_uncommitted
A.consumer.no.such.property = hunter2
A.consumer.max.poll.records = 9
"""
    told = converted(more).told
    assert "PEM" in told["A.ssl.truststore.location"]
    assert "read_committed" in told["A.consumer.isolation.level"]
    assert "unknown property" in told["A.consumer.no.such.property"]
    assert told["A.consumer.max.poll.records"].startswith("no effect: ")
    assert "hunter2" not in str(told)
    assert pipeline(more, folder=tmp_path).name == "A-to-B"


def test_config_providers_become_variables_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = """
config.providers = env, dir, file
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.dir.class = org.apache.kafka.common.config.provider.DirectoryConfigProvider
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
A.sasl.username = ${env:THE_USER}
A.sasl.password = ${dir:FOLDER:secret}
B.sasl.username = me
B.sasl.password = ${file:/etc/secrets.properties:password}
A.client.rack = x
A.consumer.client.rack = ${unknown:b}
""".replace("FOLDER", str(tmp_path))
    (tmp_path / "secret").write_text("hunter2\n")
    monkeypatch.setenv("THE_USER", "somebody")
    consumer = pipeline(more, folder=tmp_path).client_properties("source", "consumer")
    assert (consumer["sasl.username"], consumer["sasl.password"]) == ("somebody", "hunter2")
    assert consumer["client.rack"] == "${unknown:b}"
    assert "${file:/path/of/the/file}" in converted(more).told["B.sasl.password"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no key 'clusters'"),
        ("clusters = A, B\nA->B.enabled = false", "no flow is enabled"),
        ("clusters = A, B\nA->B.enabled = true\nA.bootstrap.servers = a:1", "'B' has no key 'B.bootstrap.servers'"),
        (CLUSTERS + "topics = (", "topics: '\\(' is not a regular expression"),
        (CLUSTERS + "topics = (?i)orders.*", r"topics: the expressions cannot be joined to one, .*\(\?i:\.\.\.\)"),
        (CLUSTERS + "topics =", "topics: it selects nothing"),
        (CLUSTERS + "tasks.max = many", "tasks.max: expected a whole number, found 'many'"),
    ],
)
def test_what_is_no_such_file_is_said(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        convert(parse_properties(text))


def test_flags_of_one_expression(tmp_path: Path) -> None:
    (part,) = pipeline("topics = (?i:orders.*), payments", folder=tmp_path).selection.parts
    names = ["ORDERS-1", "payments", "PAYMENTS"]
    assert [name for name in names if compile_java(part.pattern).matches(name)] == ["ORDERS-1", "payments"]


# Keys of MirrorMaker 2 4.3: those of its connectors, and those in its example file.
_CONNECTOR_KEYS = """
add.source.alias.to.metrics admin.timeout.ms checkpoints.topic.replication.factor config.properties.blacklist
config.properties.exclude config.property.filter.class consumer.poll.timeout.ms emit.checkpoints.enabled
emit.checkpoints.interval.seconds emit.heartbeats.enabled emit.heartbeats.interval.seconds emit.offset-syncs.enabled
forwarding.admin.class group.filter.class groups groups.blacklist groups.exclude heartbeats.replication.enabled
heartbeats.topic.replication.factor metric.reporters offset-syncs.topic.location offset-syncs.topic.replication.factor
offset.lag.max refresh.groups.enabled refresh.groups.interval.seconds refresh.topics.enabled
refresh.topics.interval.seconds replication.factor replication.policy.class
replication.policy.internal.topic.separator.enabled replication.policy.separator sync.group.offsets.enabled
sync.group.offsets.interval.seconds sync.topic.acls.enabled sync.topic.acls.interval.seconds
sync.topic.configs.enabled sync.topic.configs.interval.seconds tasks.max topic.filter.class topics topics.blacklist
topics.exclude use.defaults.from use.incremental.alter.configs dedicated.mode.enable.internal.rest
offset.storage.replication.factor status.storage.replication.factor config.storage.replication.factor listeners
key.converter value.converter header.converter transforms transforms.x.type plugin.path rest.port
offset.flush.interval.ms exactly.once.source.support transaction.boundary
"""


def test_every_key_of_mirror_maker_has_a_counterpart_or_a_reason() -> None:
    keys = _CONNECTOR_KEYS.split()
    values = {
        "replication.policy.class": "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
        "replication.policy.separator": ".",
        **{key: "x" for key in keys if key.startswith(("topics", "groups"))},
    }
    more = "".join(f"{key} = {values.get(key, 3)}\n" for key in keys)
    found = convert(parse_properties(CLUSTERS + more))
    told = found.told | found.flows[0].told
    assert not [key for key, reason in told.items() if "unknown to" in reason]
    assert "unknown to" in reason_for("some.other.key")
    assert told["offset.lag.max"] == "every offset is mapped exactly, in the transaction of its record"
    assert {"topics", "tasks.max", "groups.exclude", "refresh.topics.interval.seconds"} & told.keys() == set()
