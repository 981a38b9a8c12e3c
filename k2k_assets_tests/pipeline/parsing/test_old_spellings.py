"""Files of K2K 0.1 and other old spellings: accepted with a warning that shows today's; each fault once."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.pipeline import load_pipeline
from k2k_assets.pipeline.parsing.document import parse_document
from k2k_assets.pipeline.parsing.old_spellings import modernized, sides_of_01
from k2k_assets_tests.pipeline.files import TUTORIAL, changed, load_text, refusal

OF_0_1 = """\
name: "demo"
features:
  exactlyOnce: disabled
  schemaMapping: disabled
  offsetCommitOptimizePartition: disabled
  tracingHeaders: disabled
coordination:
  kafka:
    charset: "UTF-8"
    connection: { servers: "old-target:9092" }
    consumer:
      fetch.min.bytes: 2
    assignment:
      topic: "demo-assignment"
      graceWindow: "20 seconds"
    commit:
      topic: "demo-offsets"
      batchSize: 10000
      group: "demo.progress"
source:
  kafka:
    registry:
      url: "http://registry:8081"
      supportedTypes: [AVRO]
    consumer:
      "group.id": "demo.consumer"
      "security.protocol": "SSL"
      "ssl.truststore.type": "PEM"
      "ssl.truststore.location": "/etc/ca.pem"
    connection:
      servers: "old-source:9092"
target:
  kafka:
    producer:
    connection:
      servers: "old-target:9092"
replication:
  - source: { name: source, topic: ["a", "b"] }
  - sink: { name: sink, topic: { staticMapping: [ {a: x}, {b: y} ] }, partition: source }
"""


def test_a_whole_file_of_k2k_0_1(tmp_path: Path) -> None:
    pipeline = load_text(tmp_path, OF_0_1)
    assert pipeline.group == "demo.progress"
    assert pipeline.coordination.assignment.topic == "demo-assignment"
    assert pipeline.coordination.assignment.grace_window.total_seconds() == 20
    assert (pipeline.coordination.commit.topic, pipeline.coordination.commit.batch_size) == ("demo-offsets", 10000)
    assert not pipeline.features.optimize_offset_commit_partition
    assert pipeline.client_properties("target", "consumer")["fetch.min.bytes"] == 2
    assert pipeline.client_properties("target", "admin")["bootstrap.servers"] == "old-target:9092"
    admin = pipeline.client_properties("source", "admin")
    assert admin == {
        "bootstrap.servers": "old-source:9092",
        "security.protocol": "SSL",
        "ssl.ca.location": "/etc/ca.pem",
    }, "K2K 0.1 has no section for all clients of a side"
    assert pipeline.routing.target_topic("b") == "y"
    assert pipeline.source.registry is not None
    assert pipeline.source.registry.config == {"schema.registry.url": "http://registry:8081"}
    assert pipeline.schema_mapping.supported_types == ("AVRO",)


@pytest.mark.parametrize("secrets_first", [False, True])
def test_a_file_of_secrets_beside_one_of_k2k_0_1_speaks_of_all_clients_too(tmp_path: Path, secrets_first: bool) -> None:
    base, secrets = tmp_path / "base.yaml", tmp_path / "secrets.yaml"
    who = '"group.id": "demo.consumer"\n      "sasl.mechanism": PLAIN\n      "sasl.username": me'
    base.write_text(OF_0_1.replace('"group.id": "demo.consumer"', who).replace('"SSL"', '"SASL_SSL"'))
    secrets.write_text('source: { kafka: { consumer: { sasl.password: "pw" } } }\n')
    pipeline = load_pipeline([secrets, base] if secrets_first else [base, secrets])
    admin = pipeline.client_properties("source", "admin")
    assert [admin[f"sasl.{key}"] for key in ("mechanism", "username", "password")] == ["PLAIN", "me", "pw"]
    told = f'{secrets}:1:32: source.kafka.consumer."sasl.password": in a file of K2K 0.1 it applies to all clients'
    assert [line for line in pipeline.warnings if line.startswith(told)] != []


def test_each_old_spelling_is_told_once_with_place_and_new_form(tmp_path: Path) -> None:
    text = OF_0_1.replace('    connection: { servers: "old-target:9092" }\n', "")
    warnings = [line.replace(f"{tmp_path}/", "") for line in load_text(tmp_path, text).warnings]
    bootstrap = 'kafka.common."bootstrap.servers"'
    holds = "in a file of K2K 0.1 it applies to all clients; write"
    assert warnings == [
        "0.yaml:9:5: coordination.kafka.charset: no effect: control records are UTF-8; take it out",
        "0.yaml:15:5: coordination.kafka.commit: an older spelling; write coordination.commit",
        "0.yaml:12:5: coordination.kafka.assignment: an older spelling; write coordination.assignment",
        "0.yaml:10:5: coordination.kafka.consumer: an older spelling; write target.kafka.consumer",
        f"0.yaml:30:7: source.kafka.connection.servers: an older spelling; write source.{bootstrap}",
        f"0.yaml:35:7: target.kafka.connection.servers: an older spelling; write target.{bootstrap}",
        "0.yaml:21:5: source.kafka.registry: an older spelling; write source.registry",
        '0.yaml:22:7: source.kafka.registry.url: an older spelling; write source.registry.config."schema.registry.url"',
        "0.yaml:23:7: source.kafka.registry.supportedTypes: an older spelling; write schemaMapping.supportedTypes",
        "0.yaml:5:3: features.offsetCommitOptimizePartition: an older spelling; write "
        "features.optimizeOffsetCommitPartition",
        f'0.yaml:26:7: source.kafka.consumer."security.protocol": {holds} source.kafka.common."security.protocol"',
        f'0.yaml:27:7: source.kafka.consumer."ssl.truststore.type": {holds} source.kafka.common."ssl.truststore.type"',
        f'0.yaml:28:7: source.kafka.consumer."ssl.truststore.location": {holds} '
        'source.kafka.common."ssl.truststore.location"',
        "0.yaml:18:7: coordination.kafka.commit.group: it names the progress: write 'demo.progress' as "
        "source.kafka.consumer.\"group.id\", instead of 'demo.consumer', which named a consumer group; none is "
        "joined here",
        "0.yaml:38:34: replication[1].sink.topic.staticMapping: an older spelling: a list of maps; write one map",
    ]


@pytest.mark.parametrize(
    ("changes", "group"),
    [
        ({"coordination/kafka/commit/group": "g"}, "g"),
        ({"coordination/commit/group": "g"}, "g"),
        ({"coordination/commit/group": "k2k.my-group"}, "k2k.my-group"),
        ({"coordination/commit/group": "g", "source/kafka/consumer": {}, "source/kafka/common/group.id": "h"}, "g"),
        ({"coordination/commit/group": "g", "source/kafka/consumer": {}}, "g"),
    ],
)
def test_the_commit_group_names_the_progress(tmp_path: Path, changes: dict[str, object], group: str) -> None:
    pipeline = load_text(tmp_path, changed(changes))
    assert pipeline.group == group
    assert len(pipeline.warnings) == 1 + ("coordination/kafka/commit/group" in changes)


def test_two_pipelines_that_differ_in_the_commit_group_alone_have_progress_of_their_own(tmp_path: Path) -> None:
    first, second = (load_text(tmp_path, changed({"coordination/kafka/commit/group": name})) for name in "ab")
    assert first.group != second.group


@pytest.mark.parametrize("key", ["optimizeCommitPartition", "offsetCommitOptimizePartition"])
def test_the_flag_of_the_commit_partition(tmp_path: Path, key: str) -> None:
    pipeline = load_text(tmp_path, changed({f"features/{key}": "disabled"}))
    assert not pipeline.features.optimize_offset_commit_partition
    both = {f"features/{key}": "disabled", "features/optimizeOffsetCommitPartition": "disabled"}
    (warning,) = load_text(tmp_path, changed(both)).warnings
    assert warning.endswith("features.optimizeOffsetCommitPartition says the same; take it out")
    message = refusal(tmp_path, changed({**both, f"features/{key}": "enabled"}))
    assert "which has another value; take one of them out" in message
    assert "faults" not in message


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("section", ["kafka/registry", "registry"])
def test_registries_of_either_side(tmp_path: Path, side: str, section: str) -> None:
    registry = {"url": "http://r:8081", "supportedTypes": ["JSON"], "headers": {"a": "b"}}
    pipeline = load_text(tmp_path, changed({f"{side}/{section}": registry}))
    found = getattr(pipeline, side).registry
    assert (found.config, found.headers) == ({"schema.registry.url": "http://r:8081"}, {"a": "b"})
    assert pipeline.schema_mapping.supported_types == ("JSON",)


def test_a_slip_of_k2ks_pages_is_understood(tmp_path: Path) -> None:
    slip = changed({"coordination/kafka/assignement": {"topic": "claims", "graceWindow": "7 seconds"}})
    found = load_text(tmp_path, slip).coordination.assignment
    assert (found.topic, found.grace_window.total_seconds()) == ("claims", 7)


def test_a_section_that_is_written_in_both_spellings_is_merged(tmp_path: Path) -> None:
    changes = {"coordination/kafka/commit": {"topic": "t"}, "coordination/commit": {"batchSize": 7}}
    commit = load_text(tmp_path, changed(changes)).coordination.commit
    assert (commit.topic, commit.batch_size) == ("t", 7)


def test_a_later_file_wins_whatever_its_spelling(tmp_path: Path) -> None:
    new = "source: { kafka: { common: { bootstrap.servers: new:1 }, consumer: { group.id: later } } }\n"
    pipeline = load_text(tmp_path, OF_0_1, new)
    assert pipeline.client_properties("source", "admin")["bootstrap.servers"] == "new:1"
    assert pipeline.group == "later"
    old = "source: { kafka: { connection: { servers: old:1 } } }\n"
    assert load_text(tmp_path, TUTORIAL, old).client_properties("source", "admin")["bootstrap.servers"] == "old:1"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"coordination/kafka/comit": {"topic": "t"}}, ":26:5: coordination.kafka.comit: unknown key"),
        ({"coordination/kafka": 5}, "coordination.kafka: expected a mapping"),
        ({"source/kafka/connection/port": 1}, "source.kafka.connection.port: unknown key"),
        ({"coordination/kafka/commit/batchSize": 0}, "coordination.commit.batchSize: expected a number of at least 1"),
        ({"coordination/kafka/commit/group": ""}, 'source.kafka.consumer."group.id": expected this key, found nothing'),
    ],
)
def test_faults_in_old_spellings_are_told_once(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    said = refusal(tmp_path, changed(changes))
    assert message in said
    assert "faults" not in said


def test_a_group_that_came_from_a_variable_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUP", "hunter2-group")
    pipeline = load_text(tmp_path, changed({"coordination/commit/group": "${GROUP}"}))
    assert pipeline.group == "hunter2-group"
    assert "hunter2" not in "".join(pipeline.warnings)
    assert "write ${GROUP} as" in pipeline.warnings[0]


def test_where_the_control_topics_are_is_no_question(tmp_path: Path) -> None:
    (warning,) = load_text(tmp_path, changed({"coordination/kafka/connection": {"servers": "elsewhere:1"}})).warnings
    assert warning.endswith(
        "coordination.kafka.connection: no effect: the control topics are on the target; take it out"
    )


def test_anchors_that_share_a_section_are_both_understood(tmp_path: Path) -> None:
    text = TUTORIAL.replace(
        'common:   { "bootstrap.servers": "src:9092" }', 'connection: &c { servers: "one:1" }'
    ).replace('common:   { "bootstrap.servers": "tgt:9092" }', "connection: *c")
    pipeline = load_text(tmp_path, text)
    assert {pipeline.client_properties(side, "admin")["bootstrap.servers"] for side in ("source", "target")} == {
        "one:1"
    }


def test_a_file_of_today_stays_as_it_is() -> None:
    root = parse_document(TUTORIAL, "f.yaml")
    found = modernized(root, sides_of_01(root))
    assert found.root is root
    assert not found.changes
    assert not found.problems
