"""Loading: merging, all faults at once with file, line and hint, secrets, and paths that are not files."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.errors import PipelineFileError
from k2k_assets.pipeline import load_pipeline, load_pipeline_in, loader
from k2k_assets_tests.pipeline.files import TUTORIAL, changed, load_text, refusal
from k2k_assets_tests.support.memory.traced import in_a_fork

SECRET = "hunter2-do-not-print"


def test_the_tutorials_file_loads_unchanged(tmp_path: Path) -> None:
    pipeline = load_text(tmp_path, TUTORIAL)
    assert (pipeline.name, pipeline.group, pipeline.start_from("orders")) == ("my-pipeline", "k2k.my-group", "earliest")
    assert pipeline.selection.matches("anything")
    assert pipeline.routing.target_topic("orders") == "orders"
    assert pipeline.warnings == ()


def test_maps_are_merged_deeply_lists_replaced_and_null_takes_away(tmp_path: Path) -> None:
    override = """
name: other
source: { kafka: { consumer: { "auto.offset.reset": latest } } }
target: { kafka: { producer: { linger.ms: 5 }, common: { "client.id": null } } }
replication: [ {source: {topic: [a, b]}}, {sink: {topic: source, partition: producer}} ]
"""
    base = changed({"target/kafka/common/client.id": "gone"})
    pipeline = load_text(tmp_path, base, override)
    assert (pipeline.name, pipeline.group, pipeline.start_from("orders")) == ("other", "k2k.my-group", "latest")
    assert pipeline.selection.literal == ("a", "b")
    assert pipeline.client_properties("target", "producer") == {
        "bootstrap.servers": "tgt:9092",
        "linger.ms": 5,
        "partitioner": "murmur2_random",
    }


def test_a_fault_names_the_file_that_won(tmp_path: Path) -> None:
    override = "\n\ncoordination: { commit: { batchSize: 0 } }\n"
    base = changed({"coordination/commit/batchSize": 5})
    assert "1.yaml:3:27: coordination.commit.batchSize: expected a number of at least 1" in refusal(
        tmp_path, base, override
    )


def test_a_pipeline_in_a_section_of_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "from-a-variable")
    file = tmp_path / "defs.yaml"
    text = "".join(f"    {line}\n" for line in changed({"name": "${NAME}"}).splitlines())
    first = f"type: a.B\nattributes:\n  pipeline:\n{text}"
    file.write_text(f"{first}---\n{first}    foo: 1\n")
    last = first.count("\n")
    section = ("attributes", "pipeline")
    assert load_pipeline_in(file, section, range(1, last + 1)).name == "from-a-variable"
    with pytest.raises(PipelineFileError, match=rf"defs.yaml:{2 * last + 2}:5: foo: unknown key"):
        load_pipeline_in(file, section, range(last + 2, 2 * last + 3))


def test_all_faults_at_once(tmp_path: Path) -> None:
    text = """\
name: 12
licence: { token: x }
features: { exactlyOnce: enabled, headerReplicaton: enabled, offsetMapping: true }
source:
  kafka:
    common: { "bootstrap.servers": "s:1" }
    consumer:
      isolation.level: read_uncommitted
      max.pol.records: 5
      group.id: g
target:
  registry: { cacheSize: 0 }
  kafka:
    producer: { acks: 1 }
coordination:
  commit: { syncTimeout: 5 s, topic: a/b }
batchSize: 3
replication:
  - source: { topic: "a[b" }
  - sink: { topic: { prefix: a, static: b }, partition: 3 }
"""
    lines = refusal(tmp_path, text).splitlines()
    expected = [
        "0.yaml:1:1: name: expected a text, found the number 12. Put it in quotes.",
        "0.yaml:2:1: licence: unknown key; did you mean license?",
        "0.yaml:3:35: features.headerReplicaton: unknown key; did you mean headerReplication?",
        "0.yaml:3:62: features.offsetMapping: expected enabled or disabled, found the boolean true. Write enabled.",
        '0.yaml:8:7: source.kafka.consumer."isolation.level": exactly-once needs read_committed',
        '0.yaml:9:7: source.kafka.consumer."max.pol.records": unknown property; did you mean max.poll.records?',
        "0.yaml:12:15: target.registry.cacheSize: expected a number of at least 1, found a value that is not shown",
        '0.yaml:13:3: target.kafka.common."bootstrap.servers": expected this key, found nothing',
        "0.yaml:14:17: target.kafka.producer.acks: exactly-once needs all, found the number 1",
        "0.yaml:16:13: coordination.commit.syncTimeout: expected a duration such as '5 seconds', found '5 s'",
        "0.yaml:16:31: coordination.commit.topic: expected a topic name",
        "0.yaml:17:1: batchSize: unknown key here; did you mean coordination.commit.batchSize?",
        "0.yaml:19:15: replication[0].source.topic: expected a regular expression (unterminated character set at",
        "0.yaml:20:13: replication[1].sink.topic: expected one of source",
        "0.yaml:20:46: replication[1].sink.partition: expected 'source' or 'producer', found the number 3",
    ]
    assert lines[0] == "15 faults in the pipeline file:"
    assert [
        wanted for wanted, line in zip(expected, lines[1:], strict=True) if not line.startswith(f"  {wanted}")
    ] == []


def test_syntax_faults_of_all_files(tmp_path: Path) -> None:
    message = refusal(tmp_path, "a: [", "b: 1\nb: 2\n")
    assert "0.yaml:" in message
    assert "1.yaml:2:1: b: duplicate key" in message


@pytest.mark.parametrize("key", ["name", "source", "target", "replication", "source/kafka"])
def test_required_keys(tmp_path: Path, key: str) -> None:
    text = changed({key: None})
    assert f"{key.replace('/', '.')}: expected this key, found nothing" in refusal(tmp_path, text)


def test_group_id_is_required_and_may_be_common(tmp_path: Path) -> None:
    message = refusal(tmp_path, changed({"source/kafka/consumer": {}}))
    assert 'source.kafka.consumer."group.id": expected this key, found nothing' in message
    moved = changed({"source/kafka/consumer": {}, "source/kafka/common/group.id": "g"})
    assert load_text(tmp_path, moved).group == "g"
    with pytest.raises(PipelineFileError):
        load_text(tmp_path, changed({"source/kafka/consumer/group.id": " "}))


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], "found an empty list"),
        ([{"source": {"topic": "a"}}], "in one pair or several; found source"),
        ([{"sink": {"topic": "source", "partition": "source"}}, {"source": {"topic": "a"}}], "found sink, source"),
        ({"source": {"topic": "a"}}, "expected a list of stages"),
        ([{"source": {"topic": "a"}, "sink": {}}], "replication[0]: expected one stage an item"),
        ([{"sources": {"topic": "a"}}], "replication[0].sources: expected `source: ...` or `sink: ...`"),
        ([{"source": "a"}, {"sink": {}}], "replication[0].source: expected a mapping, found 'a'"),
        ([{"source": {"topic": "a"}}, {"sink": {}}], "replication[1].sink.topic: expected this key"),
        ([{"source": {"topic": "a", "exclud": "b"}}, {"sink": {}}], "replication[0].source.exclud: unknown key"),
    ],
)
def test_shape_of_replication(tmp_path: Path, stages: object, message: str) -> None:
    assert message in refusal(tmp_path, changed({"replication": stages}))


def test_listed_topics_must_have_a_target(tmp_path: Path) -> None:
    stages = [
        {"source": {"topic": ["a", "b"]}},
        {"sink": {"topic": {"staticMapping": {"a": "x"}}, "partition": "source"}},
    ]
    assert "staticMapping has no entry for the selected topic 'b'" in refusal(
        tmp_path, changed({"replication": stages})
    )


@pytest.mark.parametrize(
    ("key", "other", "name"),
    [
        ("offsetMapping.topic", "coordination.commit.topic", "__k2k_consumer-offsets"),
        ("offsetMapping.topic", "coordination.assignment.topic", "__k2k_assignment"),
        ("metrics.kafka.topic", "coordination.commit.topic", "__k2k_consumer-offsets"),
        ("metrics.kafka.topic", "coordination.assignment.topic", "__k2k_assignment"),
        ("metrics.kafka.topic", "offsetMapping.topic", "__k2k_offset_mappings"),
    ],
)
def test_mappings_and_metrics_have_topics_of_their_own(tmp_path: Path, key: str, other: str, name: str) -> None:
    """Metrics among them: on a compacted topic they would be kept for ever, and deletion would take positions."""
    said = refusal(tmp_path, changed({key.replace(".", "/"): name}))
    assert f"{key}: '{name}' is {other} too; they cannot be shared" in said


def test_commits_and_claims_may_share_a_topic(tmp_path: Path) -> None:
    pipeline = load_text(tmp_path, changed({"coordination/commit/topic": "__k2k_assignment"}))
    assert pipeline.coordination.commit.topic == pipeline.coordination.assignment.topic


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
@pytest.mark.parametrize(
    "key",
    ["coordination/commit/topic", "coordination/assignment/topic", "offsetMapping/topic", "metrics/kafka/topic"],
)
def test_nothing_is_written_into_the_topics_of_kafka_itself(tmp_path: Path, key: str, name: str) -> None:
    said = refusal(tmp_path, changed({key: name}))
    assert f"{key.replace('/', '.')}: expected a topic of the pipeline's own, found '{name}'" in said
    rule = {"pattern": ".*", "filter": {"key": "$", "exists": True}, "onError": "deadLetter", "deadLetters": name}
    assert "transform[0].deadLetters: expected a topic of the" in refusal(tmp_path, changed({"transform": [rule]}))


@pytest.mark.parametrize(
    "changes",
    [
        {"source/kafka/common/sasl.jaas.config": f'org.Bad required username="u" password="{SECRET}";'},
        {"source/kafka/common/sasl.jaas.config": f'PlainLoginModule required username="u" password="{SECRET}'},
        {"source/kafka/common/sasl.password": [SECRET]},
        {"source/kafka/common/sasl.passwort": SECRET},
        {"source/kafka/common": f"sasl.password={SECRET}"},
        {"source/kafka": SECRET},
        {"target/registry": {"config": {"basic.auth.user.info": [SECRET]}}},
        {"target/registry": {"cacheSize": SECRET}},
        {"source/registry": {"headers": f"x: {SECRET}"}},
        {"features/schemaMapping": "enabled", "source/registry": {"headers": {"Authorization": f"Bearer {SECRET}\n"}}},
        {"target/kafka/common/ssl.key.password": {"x": SECRET}},
        {"sasl.jaas.config": SECRET},
        {"license": {"token": SECRET}, "name": 3},
        {"target/kafka/producer/transactional.id": SECRET},
        {"spark": f"sc://h/;token={SECRET}"},
        {"spark/config": f"spark.authenticate.secret={SECRET}"},
        {"spark/remote": [f"sc://h/;token={SECRET}"]},
        {"target/kafka/common/ssl.keystore.key": SECRET, "target/kafka/common/ssl.keystore.location": SECRET + ".jks"},
    ],
)
def test_secrets_are_in_no_message(tmp_path: Path, changes: dict[str, object]) -> None:
    assert SECRET not in refusal(tmp_path, changed(changes))


def test_secrets_are_in_no_repr_nor_warning(tmp_path: Path) -> None:
    changes = {
        "source/kafka/common/sasl.jaas.config": f'x.PlainLoginModule required username="u" password="{SECRET}";',
        "source/kafka/common/max.poll.records": SECRET,
        "target/kafka/admin/ssl.key.password": SECRET,
        "target/kafka/producer/key.serializer": SECRET,
        "spark/config/spark.hadoop.secret": SECRET,
        "spark/remote": f"sc://h/;token={SECRET}",
    }
    pipeline = load_text(tmp_path, changed(changes))
    shown = [repr(pipeline), str(pipeline), f"{pipeline!s}", repr(pipeline.source), *pipeline.warnings]
    shown += [repr(part) for part in (pipeline.target.kafka, pipeline.spark, list(pipeline))]
    assert not [text for text in shown if SECRET in text]
    assert pipeline.client_properties("source", "consumer")["sasl.password"] == SECRET


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nname: caf\xe9\n")
    with pytest.raises(PipelineFileError) as caught:
        load_pipeline([tmp_path / "missing.yaml", tmp_path, tmp_path / "latin.yaml"])
    message = str(caught.value)
    assert "missing.yaml: cannot be read: No such file or directory" in message
    assert f"{tmp_path}: cannot be read: Is a directory" in message
    assert "latin.yaml:2:10: expected UTF-8 text" in message


def test_no_file_at_all() -> None:
    with pytest.raises(PipelineFileError, match="no pipeline file was given"):
        load_pipeline([])


def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(file: str, mode: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), file)

    # Fake, because root may read every file.
    monkeypatch.setattr(loader, "open", refused, raising=False)
    with pytest.raises(PipelineFileError, match=r"f\.yaml: cannot be read: Permission denied"):
        load_pipeline(tmp_path / "f.yaml")


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(100_000_000)

    def check() -> None:
        tracemalloc.start()
        with pytest.raises(PipelineFileError, match="larger than 1000000 bytes"):
            load_pipeline(path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000

    in_a_fork(check)


@pytest.mark.timeout(60)
def test_many_unknown_keys_are_told_briefly(tmp_path: Path) -> None:
    message = refusal(tmp_path, changed({"source/kafka/consumer": {f"unknown.{n}": 1 for n in range(10_000)}}))
    assert len(message.splitlines()) < 110
    assert "and 9901 more" in message


@pytest.mark.timeout(60)
def test_many_faults_with_values_of_variables_are_told_briefly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "hunter2")
    text = "\n".join([TUTORIAL, *(f'unknown{n}: "{n}.${{MINE}}"' for n in range(10_000))])
    message = refusal(tmp_path, text)
    assert "and 9900 more" in message
    assert "hunter2" not in message


@pytest.mark.timeout(60)
def test_an_expression_that_takes_for_ever_is_refused(tmp_path: Path) -> None:
    sink = {"topic": {"staticMapping": {"(a|a)*[bc]": "x"}}, "partition": "source"}
    text = changed({"replication": [{"source": {"topic": ["a" * 40]}}, {"sink": sink}]})
    message = refusal(tmp_path, text)
    assert "it takes too long to match the regular expression '(a|a)*[bc]'" in message


@pytest.mark.parametrize("timeout", ["9" * 21, 9e18])
def test_a_time_out_beyond_all_limits_is_refused_in_words(tmp_path: Path, timeout: object) -> None:
    changes = {"features/exactlyOnce": "enabled", "target/kafka/producer": {"transaction.timeout.ms": timeout}}
    assert "expected a whole number from 1000 to 2147483647" in refusal(tmp_path, changed(changes))


def test_the_target_s_group_id_is_of_no_use(tmp_path: Path) -> None:
    pipeline = load_text(tmp_path, changed({"target/kafka/consumer": {"group.id": ""}}))
    assert "group.id" not in pipeline.client_properties("target", "consumer")
    assert any("no group is joined on the target" in line for line in pipeline.warnings)


def test_a_pipeline_can_be_sent_to_another_process(tmp_path: Path) -> None:
    pipeline = load_text(tmp_path, changed({"source/kafka/consumer/max.poll.records": 5}))
    copied = pickle.loads(pickle.dumps(pipeline))
    assert copied == pipeline
    assert (copied.group, copied.code_version, copied.warnings) == (
        pipeline.group,
        pipeline.code_version,
        pipeline.warnings,
    )


@pytest.mark.processes
def test_the_package_is_pure() -> None:
    code = (
        "import sys, k2k_assets.pipeline, k2k_assets.pipeline.reference\n"
        "bad = {'confluent_kafka', 'pyspark', 'dagster', 'pandas', 'pyarrow'} & set(sys.modules)\n"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    ("stages", "places"),
    [
        (
            [{"sauce": {"topic": "("}}, {"sink": {"topic": "source", "partition": "nope"}}],
            ["replication[0].sauce", "replication[1].sink.partition"],
        ),
        (
            [{"source": {"topic": "("}}, "wrong", {"sink": []}, {"sink": {"topic": {"prefx": "x"}, "partition": 1}}],
            [
                "replication[0].source.topic",
                "replication[1]",
                "replication[2].sink",
                "replication[3].sink.partition",
                "replication[3].sink.topic.prefx",
            ],
        ),
        (
            [{"source": {"topic": "a"}, "sink": {"topic": "source", "partition": "source"}}, {"transform": {}}],
            ["replication[0]", "replication[1].transform"],
        ),
        ([{"sink": {"topic": "source", "partition": "nope"}}], ["replication", "replication[0].sink.partition"]),
    ],
)
def test_a_bad_stage_hides_no_fault_of_the_others_and_of_the_rest(
    stages: list[Any], places: list[str], tmp_path: Path
) -> None:
    words = refusal(tmp_path, changed({"replication": stages, "features/exactlyOnes": "enabled"}))
    told = sorted(line.split(": ")[1] for line in words.splitlines()[1:])
    assert told == sorted(["features.exactlyOnes", *places])
    assert words.splitlines()[0] == f"{len(places) + 1} faults in the pipeline file:"


def test_a_file_with_200_topics_is_read_quickly(tmp_path: Path) -> None:
    """Less than 0.3 s; the best of three, as other processes may have the cores."""
    names = [f"team-{n % 9}.orders.{n}" for n in range(200)]
    mapping = {name: f"copy.{name}" for name in names}
    rules = [{"pattern": f"team-{n}\\..*", "key": "enabled"} for n in range(50)]
    sink = {"topic": {"staticMapping": mapping}, "partition": "source"}
    stages = [{"source": {"topic": names}}, {"sink": sink}]
    path = tmp_path / "many.yaml"
    path.write_text(changed({"replication": stages, "schemaMapping/topics": rules}))
    load_pipeline(path)

    def seconds() -> float:
        started = time.perf_counter()
        assert len(load_pipeline(path).selection.literal or ()) == 200
        return time.perf_counter() - started

    assert min(seconds() for _ in range(3)) < 0.3


def test_numbers_of_clients_are_the_text_of_the_file(tmp_path: Path) -> None:
    """A password of digits would be another one without its zeros."""
    common = '"bootstrap.servers": "tgt:9092"'
    numbers = '"sasl.password": 0123, "sasl.username": 1.10, "client.id": 7, "retries": 1e3'
    found = load_text(tmp_path, TUTORIAL.replace(common, f"{common}, {numbers}")).target.kafka.common
    assert found["sasl.password"] == "0123"
    assert found["sasl.username"] == "1.10"
    assert (found["client.id"], found["retries"]) == (7, 1000.0)
