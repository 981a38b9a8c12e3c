"""Pipelines that map schema ids, on real clusters with real registries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.stops.reasons.schemas import SchemaRefusedByTarget
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import load_pipeline
from k2k_assets.registry.client import ConfluentRegistry
from k2k_assets.registry.framing import PREFIX, id_of, prefix_of
from k2k_assets.registry.schemas import Schema
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.registry.conftest import Registries
from k2k_assets_tests.support.brokers.kafka import ReadRecord, Record, create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import Running, assert_exact_mappings, copy, dying_first, told
from k2k_assets_tests.support.copies.pipelines import Make, of_small_transactions
from k2k_assets_tests.support.copies.schema_records import KINDS, Kind

pytestmark = [pytest.mark.integration, pytest.mark.slow]

COUNTS = {"enabled": 10_000, "disabled": 500}
"""How many records are copied, by `features.exactlyOnce`."""


def values_of(servers: str, topic: str) -> list[bytes]:
    return [record.value or b"" for record in read_all(servers, topic)]


def payload(record: ReadRecord) -> bytes:
    """Of a value, what mapping leaves as it is; all of these tests' differ."""
    return (record.value or b"")[PREFIX:]


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_records_are_decoded_on_the_target(
    clusters: KafkaSandbox, registries: Registries, make: Make, kind: Kind, mode: str
) -> None:
    topic = create_topic(clusters.source_servers, unique("orders"))
    write = kind.writer(registries[0].url, topic)
    produce(clusters.source_servers, topic, [write(n) for n in range(COUNTS[mode])])
    pipeline = make([topic], mode)

    assert copy(pipeline).stopped == {}

    read = kind.reader(registries[1].url, f"copy.{topic}")
    mapped = values_of(clusters.target_servers, f"copy.{topic}")
    assert [read(value) for value in mapped] == list(range(COUNTS[mode]))
    assert mapped[0] != values_of(clusters.source_servers, topic)[0]
    if mode == "enabled":  # at-least-once may copy records in flight twice
        assert_exact_mappings(pipeline, clusters.source_servers, clusters.target_servers, topic, payload)


def test_a_record_with_an_unknown_schema_stops_its_topic_there_and_no_other(
    clusters: KafkaSandbox, registries: Registries, make: Make
) -> None:
    good, bad = (create_topic(clusters.source_servers, unique(name)) for name in ("good", "bad"))
    for topic in (good, bad):
        write = KINDS[0].writer(registries[0].url, topic)
        produce(clusters.source_servers, topic, [write(n) for n in range(10)])
    produce(clusters.source_servers, bad, [b"\0" + (999_999).to_bytes(4, "big") + b"x", b"after"])

    outcome = copy(make([good, bad]))

    assert set(outcome.stopped) == {bad}
    assert "[schema-not-found]" in told(outcome)[bad]
    assert "offset 10 has schema id 999999" in told(outcome)[bad]
    assert len(values_of(clusters.target_servers, f"copy.{bad}")) == 10
    assert len(values_of(clusters.target_servers, f"copy.{good}")) == 10


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_long_keys_beside_values_with_schemas_need_a_rule(
    clusters: KafkaSandbox, registries: Registries, make: Make, tmp_path: Path, mode: str
) -> None:
    """A number that begins as the id of the topic's own values."""
    topic = create_topic(clusters.source_servers, unique("orders"))
    write = KINDS[0].writer(registries[0].url, topic)
    values = [write(n) for n in range(3)]
    key = values[0][:PREFIX] + b"abc"
    produce(clusters.source_servers, topic, [values[0], Record(key, values[1]), values[2]])
    pipeline = make([topic], mode)

    outcome = copy(pipeline)
    assert "[schema-of-other-topic]" in told(outcome)[topic]
    assert f"the key of the record at {topic}-0 offset 1" in told(outcome)[topic]
    assert len(values_of(clusters.target_servers, f"copy.{topic}")) == 1

    file = tmp_path / f"{pipeline.name}.yaml"
    rules = {"topics": [{"pattern": ".*", "value": "enabled"}]}
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "schemaMapping": rules}))
    assert copy(load_pipeline([file])).stopped == {}
    records = read_all(clusters.target_servers, f"copy.{topic}")
    assert [record.key for record in records] == [None, key, None]
    read = KINDS[0].reader(registries[1].url, f"copy.{topic}")
    assert [read(record.value or b"") for record in records] == [0, 1, 2]


def test_a_rule_lets_bytes_be_that_only_look_like_an_id(
    clusters: KafkaSandbox, registries: Registries, make: Make
) -> None:
    topic = create_topic(clusters.source_servers, unique("longs"))
    numbers = [(n << 24).to_bytes(8, "big") for n in range(1, 4)]
    produce(clusters.source_servers, topic, numbers)
    rules = {"topics": [{"pattern": "other", "key": "enabled"}, {"pattern": "longs.*", "key": "enabled"}]}
    assert copy(make([topic], schemaMapping=rules)).stopped == {}
    assert values_of(clusters.target_servers, f"copy.{topic}") == numbers


@pytest.mark.parametrize("part", ["key", "value"])
def test_rules_say_which_part_of_a_record_has_an_id(
    clusters: KafkaSandbox, registries: Registries, make: Make, part: str
) -> None:
    """The other one has the bytes of an id too, and stays as it is."""
    topic = create_topic(clusters.source_servers, unique("parts"))
    write = KINDS[0].writer(registries[0].url, topic)
    produce(clusters.source_servers, topic, [Record(write(n), write(n)) for n in range(3)])
    assert copy(make([topic], schemaMapping={"topics": [{"pattern": "parts.*", part: "enabled"}]})).stopped == {}
    read = read_all(clusters.source_servers, topic)
    copied = read_all(clusters.target_servers, f"copy.{topic}")
    changed = {"key": [r.key for r in copied] != [r.key for r in read],
               "value": [r.value for r in copied] != [r.value for r in read]}  # fmt: skip
    assert changed == {"key": part == "key", "value": part == "value"}


def test_a_type_that_the_file_does_not_name_stops_the_topic(
    clusters: KafkaSandbox, registries: Registries, make: Make
) -> None:
    topic = create_topic(clusters.source_servers, unique("orders"))
    write = KINDS[0].writer(registries[0].url, topic)
    produce(clusters.source_servers, topic, [write(1)])
    words = told(copy(make([topic], schemaMapping={"supportedTypes": ["JSON", "PROTOBUF"]})))[topic]
    assert f"{KINDS[0].name} is not among schemaMapping.supportedTypes" in words


@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
def test_a_registry_that_is_away_is_waited_for(
    clusters: KafkaSandbox, registries: Registries, make: Make, side: int
) -> None:
    """Nothing is written with an id that nobody has told; what is known already is copied on."""
    topic = create_topic(clusters.source_servers, unique("orders"))
    write = KINDS[0].writer(registries[0].url, topic)
    produce(clusters.source_servers, topic, [write(n) for n in range(5)])
    other = ConfluentRegistry("source", {"url": registries[0].url}, {})
    new_id = other.register(f"{topic}-value", Schema("AVRO", '"long"'))
    pipeline = make([topic])
    running = Running(pipeline, 1)
    running.await_copied(5)
    registries[side].pause()
    try:
        produce(clusters.source_servers, topic, [write(n) for n in range(5, 8)])
        running.await_copied(8)
        produce(clusters.source_servers, topic, [b"\0" + new_id.to_bytes(4, "big") + b"\x02"])
        produce(clusters.source_servers, topic, [write(8)])
        with pytest.raises(TimeoutError):
            wait_until(lambda: running.copied() > 8, 10, "a record whose schema nobody has told")
    finally:
        registries[side].resume()
    running.await_copied(10)
    running.end()
    mapped = values_of(clusters.target_servers, f"copy.{topic}")
    target = ConfluentRegistry("target", {"url": registries[1].url}, {})
    assert target.schema(id_of(mapped[8][:PREFIX])) == Schema("AVRO", '"long"')
    read = KINDS[0].reader(registries[1].url, f"copy.{topic}")
    assert [read(value) for value in [*mapped[:8], mapped[9]]] == list(range(9))
    assert_exact_mappings(pipeline, clusters.source_servers, clusters.target_servers, topic, payload)


@pytest.mark.parametrize("form", ["records", "batches"])
@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_others_are_copied_on_once_while_a_registry_is_away(
    clusters: KafkaSandbox, registries: Registries, make: Make, mode: str, form: str
) -> None:
    """One slot: what lies before a new schema, and another topic, in several turns of the one that waits."""
    waiting, other = (create_topic(clusters.source_servers, unique(name)) for name in ("a-waiting", "other"))
    write = {topic: KINDS[0].writer(registries[0].url, topic) for topic in (waiting, other)}
    for topic in (waiting, other):
        produce(clusters.source_servers, topic, [write[topic](0)])
    source = ConfluentRegistry("source", {"url": registries[0].url}, {})
    new_id = source.register(f"{waiting}-value", Schema("AVRO", '"long"'))
    running = Running(make([waiting, other], mode, transport={"form": form}), 1)
    running.await_copied(2)
    registries[1].pause()
    try:
        new = b"\0" + new_id.to_bytes(4, "big") + b"\x02"
        produce(clusters.source_servers, waiting, [write[waiting](1), write[waiting](2), new, write[waiting](3)])
        for n in range(1, 6):
            produce(clusters.source_servers, other, [write[other](n)] * 100)
            running.await_copied(4 + 100 * n)
        assert running.positions()[TopicPartition(waiting, 0)] == 3
        assert len(values_of(clusters.target_servers, f"copy.{waiting}")) == 3
    finally:
        registries[1].resume()
    running.await_copied(506)
    running.end()
    assert running.error is None
    assert len(values_of(clusters.target_servers, f"copy.{other}")) == 501
    assert len(values_of(clusters.target_servers, f"copy.{waiting}")) == 5


def test_a_schema_that_the_target_does_not_take_stops_the_topic(
    clusters: KafkaSandbox, registries: Registries, make: Make
) -> None:
    topic = create_topic(clusters.source_servers, unique("orders"))
    write = KINDS[0].writer(registries[0].url, topic)
    produce(clusters.source_servers, topic, [write(1)])
    subject = f"copy.{topic}-value"
    target = ConfluentRegistry("target", {"url": registries[1].url}, {})
    target.register(subject, Schema("AVRO", '"long"'))
    target._client.set_compatibility(subject, "FULL")
    pipeline = make([topic])

    outcome = copy(pipeline)
    assert f"under subject {subject}" in told(outcome)[topic]

    target._client.set_compatibility(subject, "NONE")
    assert copy(pipeline).stopped == {}
    assert len(values_of(clusters.target_servers, f"copy.{topic}")) == 1


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
@pytest.mark.parametrize(("step", "occurrence"), [("write", 2), ("settle", 2), ("commit", 3)])
def test_killed_and_run_again(
    clusters: KafkaSandbox, registries: Registries, make: Make, mode: str, step: str, occurrence: int
) -> None:
    """A schema that was registered by a slot that died is there once; ids and mappings are those of the records."""
    topic = create_topic(clusters.source_servers, unique("orders"))
    write = KINDS[0].writer(registries[0].url, topic)
    produce(clusters.source_servers, topic, [write(n) for n in range(300)])
    pipeline = make(
        [topic],
        mode,
        **of_small_transactions(50),
    )

    outcome = copy(pipeline, cores=1, runner=dying_first(step, occurrence))

    assert outcome.topics[topic].lag == 0
    read = KINDS[0].reader(registries[1].url, f"copy.{topic}")
    copied = [read(value) for value in values_of(clusters.target_servers, f"copy.{topic}")]
    assert list(dict.fromkeys(copied)) == list(range(300))
    if mode == "enabled":
        assert len(copied) == 300
    assert_exact_mappings(pipeline, clusters.source_servers, clusters.target_servers, topic, payload)
    target = ConfluentRegistry("target", {"url": registries[1].url}, {})
    assert list(target.versions(f"copy.{topic}-value")) == [1]


@pytest.mark.parametrize(
    ("sink", "target_topic"),
    [({"prefix": "copy."}, "copy.{}"), ({"suffix": ".copy"}, "{}.copy")],
    ids=["prefix", "suffix"],
)
def test_subjects_follow_the_name_of_the_target_topic(
    clusters: KafkaSandbox, registries: Registries, make: Make, sink: dict[str, str], target_topic: str
) -> None:
    """Of TopicNameStrategy and TopicRecordNameStrategy; RecordNameStrategy's have no topic in them."""
    topic, record = create_topic(clusters.source_servers, unique("orders")), unique("shop.Order").replace("-", "_")
    source, target = (ConfluentRegistry("source", {"url": registry.url}, {}) for registry in registries)
    subjects = ("{}-key", "{}-value", f"{{}}-{record}", record)
    schemas = [Schema("AVRO", f'{{"type": "fixed", "name": "{record}", "size": {n}}}') for n in range(1, 5)]
    here = [source.register(subject.format(topic), schema) for subject, schema in zip(subjects, schemas, strict=True)]
    produce(clusters.source_servers, topic, [Record(framed(here[0]), framed(each)) for each in here[1:]])

    assert copy(make([topic], sink=sink)).stopped == {}

    name = target_topic.format(topic)
    copied = read_all(clusters.target_servers, name)
    there = [copied[0].key, *(record.value for record in copied)]
    assert [target.schema(id_of(each or b"")) for each in there] == schemas
    for subject, schema in zip(subjects, schemas, strict=True):
        assert list(target.versions(subject.format(name))) == [1]
        assert target.version(subject.format(name), 1) == schema
    assert [list(target.versions(subject.format(topic))) for subject in subjects[:3]] == [[], [], []]


def framed(schema_id: int) -> bytes:
    return prefix_of(schema_id) + b"payload"


FIRST = {"name": "number", "type": "long"}
WANTED = {"name": "currency", "type": "string"}


@pytest.mark.parametrize(
    ("level", "second", "is_taken"),
    [
        ("BACKWARD", [FIRST, {**WANTED, "default": "EUR"}], True),
        ("BACKWARD", [FIRST, WANTED], False),
        ("FORWARD", [FIRST, WANTED], True),
        ("FORWARD", [WANTED], False),
        ("FULL", [FIRST, {**WANTED, "default": "EUR"}], True),
        ("FULL", [FIRST, WANTED], False),
        ("NONE", [WANTED], True),
    ],
)
def test_the_targets_own_compatibility_judges_versions_in_the_order_of_the_source(
    clusters: KafkaSandbox, registries: Registries, make: Make, level: str, second: list[dict[str, str]], is_taken: bool
) -> None:
    """What the source's registry has taken, under whatever level, is judged anew; the level itself is not copied."""
    topic, name = create_topic(clusters.source_servers, unique("orders")), unique("Order").replace("-", "_")
    source, target = (ConfluentRegistry("source", {"url": registry.url}, {}) for registry in registries)
    versions = [
        Schema("AVRO", json.dumps({"type": "record", "name": name, "fields": fields})) for fields in ([FIRST], second)
    ]
    of_source, of_target = f"{topic}-value", f"copy.{topic}-value"
    ids = [source.register(of_source, versions[0])]
    source._client.set_compatibility(of_source, "NONE")
    ids.append(source.register(of_source, versions[1]))
    target.register(of_target, versions[0])
    target._client.set_compatibility(of_target, level)
    produce(clusters.source_servers, topic, [framed(each) for each in ids])
    pipeline = make([topic])

    outcome = copy(pipeline)

    assert list(target.versions(of_target)) == ([1, 2] if is_taken else [1])
    copied = values_of(clusters.target_servers, f"copy.{topic}")
    assert [target.schema(id_of(value)) for value in copied] == versions[: len(copied)]
    if is_taken:
        assert (outcome.stopped, len(copied)) == ({}, 2)
        return
    reason = outcome.stopped[topic][0]
    assert isinstance(reason, SchemaRefusedByTarget)
    assert (reason.offset, reason.schema_id, reason.subject, len(copied)) == (1, ids[1], of_target, 1)
    target._client.set_compatibility(of_target, "NONE")
    assert copy(pipeline).stopped == {}
    assert target.schema(id_of(values_of(clusters.target_servers, f"copy.{topic}")[1])) == versions[1]
