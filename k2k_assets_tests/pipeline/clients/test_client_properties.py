"""Translation of Java's client properties to librdkafka's, checked with the real library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from k2k_assets.pipeline.clients import librdkafka_names
from k2k_assets.pipeline.clients.client_properties import ClientKind, ClusterRole, PropertyTranslation, translate
from k2k_assets.pipeline.clients.java_properties import RULES, Renamed, Scalar
from k2k_assets_tests.pipeline.files import changed, load_text, refusal


def translated(
    client: ClientKind,
    given: Mapping[str, Scalar],
    *,
    cluster: ClusterRole | None = None,
    common: Mapping[str, Scalar] | None = None,
    exactly_once: bool = False,
) -> PropertyTranslation:
    cluster = cluster or ("source" if client == "consumer" else "target")
    sections = [(f"{cluster}.kafka.common", common or {}), (f"{cluster}.kafka.{client}", given)]
    return translate(cluster, client, sections, exactly_once=exactly_once)


CASES: list[tuple[ClientKind, dict[str, Scalar], dict[str, Scalar]]] = [
    ("consumer", {"fetch.max.wait.ms": 100}, {"fetch.wait.max.ms": 100}),
    ("consumer", {"fetch.max.wait.ms": "100"}, {"fetch.wait.max.ms": 100}),
    ("consumer", {"max.partition.fetch.bytes": 5}, {"fetch.message.max.bytes": 5}),
    ("consumer", {"receive.buffer.bytes": -1}, {"socket.receive.buffer.bytes": 0}),
    ("consumer", {"request.timeout.ms": 40_000}, {"socket.timeout.ms": 40_000}),
    ("consumer", {"metadata.max.age.ms": 1000}, {"topic.metadata.refresh.interval.ms": 1000}),
    ("consumer", {"connections.max.idle.ms": -1}, {"connections.max.idle.ms": 0}),
    ("consumer", {"auto.offset.reset": "none"}, {"auto.offset.reset": "error"}),
    ("consumer", {"client.rack": "r", "check.crcs": True}, {"client.rack": "r", "check.crcs": True}),
    ("consumer", {"isolation.level": "read_uncommitted"}, {"isolation.level": "read_uncommitted"}),
    ("consumer", {"isolation.level": " READ_Committed"}, {"isolation.level": "read_committed"}),
    ("consumer", {"isolation.level": "READ_UNCOMMITTED"}, {"isolation.level": "read_uncommitted"}),
    ("admin", {"ssl.providers": "default, legacy"}, {"ssl.providers": "default, legacy"}),
    ("consumer", {"queued.min.messages": 10}, {"queued.min.messages": 10}),
    ("producer", {"buffer.memory": 33_554_433}, {"queue.buffering.max.kbytes": 32_769}),
    ("producer", {"batch.size": 0}, {"batch.size": 1}),
    ("producer", {"linger.ms": 0.5}, {"linger.ms": 0.5}),
    ("producer", {"acks": "all", "enable.idempotence": "true"}, {"acks": "all", "enable.idempotence": "true"}),
    ("producer", {"request.timeout.ms": 10_000}, {"socket.timeout.ms": 10_000}),
    (
        "producer",
        {"compression.type": "zstd", "compression.zstd.level": 22},
        {"compression.type": "zstd", "compression.level": 12},
    ),
    (
        "producer",
        {"partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"},
        {"partitioner": "random"},
    ),
    (
        "producer",
        {"partitioner.class": "org.apache.kafka.clients.producer.internals.DefaultPartitioner"},
        {"partitioner": "murmur2_random"},
    ),
    ("producer", {"partitioner.ignore.keys": True}, {"partitioner": "random"}),
    ("producer", {"partitioner": "consistent"}, {"partitioner": "consistent"}),
    ("admin", {"send.buffer.bytes": 1000}, {"socket.send.buffer.bytes": 1000}),
    (
        "admin",
        {"sasl.mechanism": "PLAIN", "sasl.jaas.config": 'a.PlainLoginModule required username="u" password="p";'},
        {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"},
    ),
    ("admin", {"ssl.truststore.location": "/ca.pem"}, {"ssl.ca.location": "/ca.pem"}),
    ("admin", {"ssl.truststore.location": "/ca", "ssl.truststore.type": "PEM"}, {"ssl.ca.location": "/ca"}),
    ("admin", {"ssl.truststore.certificates": "PEM", "ssl.truststore.type": "PEM"}, {"ssl.ca.pem": "PEM"}),
    (
        "admin",
        {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "p"},
        {"ssl.keystore.location": "/k.p12", "ssl.keystore.password": "p"},
    ),
    (
        "admin",
        {"ssl.keystore.location": "/k.pem", "ssl.key.password": "p"},
        {"ssl.key.location": "/k.pem", "ssl.certificate.location": "/k.pem", "ssl.key.password": "p"},
    ),
    (
        "admin",
        {"ssl.keystore.certificate.chain": "C", "ssl.keystore.key": "K"},
        {"ssl.certificate.pem": "C", "ssl.key.pem": "K"},
    ),
    ("admin", {"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
    ("admin", {"sasl.kerberos.kinit.cmd": "kinit -k x"}, {"sasl.kerberos.kinit.cmd": "kinit -k x"}),
]


@pytest.mark.parametrize(("client", "given", "wanted"), CASES)
def test_translation(client: ClientKind, given: dict[str, Scalar], wanted: dict[str, Scalar]) -> None:
    result = translated(client, given)
    if client == "producer":
        wanted = {"partitioner": "murmur2_random", **wanted}
    assert result.faults == []
    assert result.values == wanted


@pytest.mark.parametrize(
    ("client", "given", "reason"),
    [
        ("consumer", {"max.poll.records": 500}, "the engine sizes its own batches"),
        ("consumer", {"session.timeout.ms": 500}, "no consumer group is joined"),
        ("consumer", {"enable.auto.commit": True}, "progress is committed to the commit topic"),
        ("consumer", {"key.deserializer": "x.Y"}, "records are copied as bytes"),
        ("consumer", {"linger.ms": 5}, "no property of the consumer client"),
        ("consumer", {"fetch.min.bytes": 10**9}, "librdkafka's limit is 100000000, which is used"),
        ("consumer", {"sasl.kerberos.kinit.cmd": "/usr/bin/kinit"}, "the whole command"),
        ("producer", {"max.block.ms": 500}, "a full queue waits"),
        ("producer", {"max.request.size": 500}, "max.message.bytes decides"),
        ("producer", {"delivery.timeout.ms": 500}, "as long as its transaction"),
        ("producer", {"compression.gzip.level": 5}, "compression.type is not gzip"),
        ("producer", {"request.timeout.ms": 30_000}, "limited by transaction.timeout.ms to 14500"),
        ("producer", {"acks": 1}, "the engine needs all and sets it"),
        ("producer", {"enable.idempotence": False}, "the engine needs true and sets it"),
        ("producer", {"max.in.flight.requests.per.connection": 6}, "at most 5"),
    ],
)
def test_what_has_no_effect_is_named(client: ClientKind, given: dict[str, Scalar], reason: str) -> None:
    result = translated(client, given)
    assert result.faults == []
    assert [remark.key for remark in result.warnings] == list(given)
    assert reason in result.warnings[0].text


@pytest.mark.parametrize(
    ("cluster", "client", "key"),
    [
        ("target", "producer", "retry.backoff.ms"),
        ("target", "producer", "retry.backoff.max.ms"),
        ("target", "consumer", "fetch.max.wait.ms"),
        ("target", "consumer", "fetch.wait.max.ms"),
        ("target", "consumer", "fetch.error.backoff.ms"),
        ("source", "consumer", "enable.partition.eof"),
    ],
)
def test_what_the_engine_sets_itself_is_named(cluster: ClusterRole, client: ClientKind, key: str) -> None:
    for sections in ({"given": {key: 700}}, {"given": {}, "common": {key: 700}}):
        result = translated(client, cluster=cluster, exactly_once=True, **sections)
        assert [remark.key for remark in result.warnings] == [key]
        assert "the engine sets it" in result.warnings[0].text
        assert 700 not in result.values.values()


def test_what_only_the_data_of_at_least_once_has_is_used_there() -> None:
    result = translated("producer", {"retry.backoff.ms": 700}, cluster="target", exactly_once=False)
    assert (result.values["retry.backoff.ms"], result.warnings) == (700, [])


def test_what_librdkafka_does_otherwise_is_named() -> None:
    result = translated("producer", {"compression.type": "zstd", "compression.zstd.level": 22})
    assert result.values["compression.level"] == 12
    assert [remark[1:] for remark in result.warnings] == [
        ("compression.zstd.level", "librdkafka's limit is 12, which is used")
    ]
    result = translated("producer", {"partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"})
    assert result.values["partitioner"] == "random"
    assert "drawn at random" in result.warnings[0].text


def test_foreign_writers_cannot_be_told_where_several_partitions_feed_one(tmp_path: Path) -> None:
    fail = {"errorHandling/onForeignWriter": "fail"}
    assert load_text(tmp_path, changed(fail)).warnings == ()
    (warning,) = load_text(tmp_path, changed({**fail, "replication/1/sink/partition": "producer"})).warnings
    assert "errorHandling.onForeignWriter: where several" in warning


def test_requests_that_know_no_transactions_cannot_be_asked_for() -> None:
    given: dict[str, Scalar] = {"api.version.request": False, "broker.version.fallback": "0.9.0.1"}
    found = translated("consumer", given, exactly_once=True)
    assert not found.values
    assert [remark.key for remark in found.warnings] == list(given)


def test_what_happens_anyway_is_not_worth_a_warning() -> None:
    quiet: dict[str, Scalar] = {
        "enable.auto.commit": False,
        "allow.auto.create.topics": "false",
        "exclude.internal.topics": True,
    }
    assert translated("consumer", quiet) == PropertyTranslation()


def test_common_properties_of_other_clients_are_left_out() -> None:
    common: dict[str, Scalar] = {"bootstrap.servers": "s", "group.id": "g", "linger.ms": 5, "client.id": "c"}
    assert translated("admin", {}, common=common) == PropertyTranslation({"bootstrap.servers": "s", "client.id": "c"})
    assert translated("consumer", {"client.id": "d"}, common=common).values["client.id"] == "d"


@pytest.mark.parametrize(
    ("client", "given", "message"),
    [
        ("consumer", {"max.pol.records": 1}, "unknown property; did you mean max.poll.records?"),
        ("consumer", {"completely-else": 1}, "unknown property"),
        ("consumer", {"fetch.min.bytes": "many"}, "expected a whole number, found 'many'"),
        ("consumer", {"fetch.min.bytes": 1.5}, "expected a whole number, found the number 1.5"),
        ("consumer", {"fetch.min.bytes": True}, "expected a whole number, found the boolean true"),
        ("consumer", {"auto.offset.reset": "by_duration:P1D"}, "expected earliest, latest or none"),
        ("producer", {"linger.ms": -1}, "expected a number of milliseconds"),
        ("producer", {"partitioner.class": "my.Own"}, "expected one of Kafka's own partitioners"),
        ("producer", {"transactional.id": "x"}, "the engine gives each slot its own"),
        ("producer", {"transaction.timeout.ms": 10}, "expected a whole number from 1000 to 2147483647"),
        ("producer", {"transaction.timeout.ms": "9" * 21}, "expected a whole number from 1000 to 2147483647"),
        ("consumer", {"isolation.level": "serializable"}, "expected read_committed or read_uncommitted"),
        ("producer", {"compression.type": "lz4", "compression.lz4.level": "x"}, "expected a whole number"),
        ("admin", {"sasl.login.callback.handler.class": "x"}, "Java code cannot be loaded"),
        ("admin", {"config.providers.file.class": "x"}, "not supported yet"),
        ("admin", {"config.providers": "file"}, "not supported yet"),
        ("admin", {"plugin.library.paths": "/evil.so"}, "does not load code"),
        ("admin", {"ssl.engine.location": "/evil.so"}, "does not load code"),
        ("admin", {"ssl.engine.id": "evil"}, "does not load code"),
        ("admin", {"ssl.providers": "/evil.so"}, "expected names of OpenSSL's installed providers"),
        ("admin", {"ssl.truststore.location": "/t.jks"}, "keytool -importkeystore"),
        ("admin", {"ssl.truststore.location": "/t"}, "a JKS trust store cannot be read"),
        ("admin", {"ssl.truststore.location": "/t.p12"}, "openssl pkcs12 -in"),
        ("admin", {"ssl.keystore.location": "/t.jks"}, "convert it to PKCS12 (`keytool"),
        ("admin", {"ssl.keystore.location": "/t", "ssl.keystore.type": "BKS"}, "expected PEM, PKCS12 or JKS"),
        ("admin", {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, "expected OpenSSL's names"),
    ],
)
def test_refusals(client: ClientKind, given: dict[str, Scalar], message: str) -> None:
    faults = translated(client, given).faults
    assert len(faults) == 1
    assert message in faults[0].text


@pytest.mark.parametrize(
    ("cluster", "client", "key", "value", "needed"),
    [
        ("source", "consumer", "isolation.level", "read_uncommitted", "read_committed"),
        ("target", "consumer", "isolation.level", "read_uncommitted", "read_committed"),
        ("target", "producer", "enable.idempotence", False, "true"),
        ("target", "producer", "enable.idempotence", "false", "true"),
        ("target", "producer", "acks", 1, "all"),
        ("target", "producer", "acks", "0", "all"),
        ("target", "producer", "max.in.flight.requests.per.connection", 6, "at most 5"),
        ("target", "producer", "retries", 0, "at least 1"),
    ],
)
def test_exactly_once_refuses_contrary_settings(
    cluster: ClusterRole, client: ClientKind, key: str, value: Scalar, needed: str
) -> None:
    for sections in ({"given": {key: value}}, {"given": {}, "common": {key: value}}):
        result = translated(client, cluster=cluster, exactly_once=True, **sections)
        assert [fault.key for fault in result.faults] == [key]
        needs, found = result.faults[0].text.split(", found ")
        assert needs == f"exactly-once needs {needed}"
        assert str(value).lower() in found
    assert translated(client, {key: value}, cluster=cluster).faults == []


def test_exactly_once_takes_right_settings() -> None:
    for level in ("read_committed", "READ_COMMITTED", " read_committed "):
        found = translated("consumer", {"isolation.level": level}, exactly_once=True)
        assert found == PropertyTranslation({"isolation.level": "read_committed"})
    right: dict[str, Scalar] = {"acks": -1, "enable.idempotence": "True", "max.in.flight": 5, "retries": 2147483647}
    assert translated("producer", right, exactly_once=True).faults == []


def test_the_commit_topic_must_be_readable_in_time(tmp_path: Path) -> None:
    base = {"features/exactlyOnce": "enabled"}
    short = changed({**base, "coordination/commit/syncTimeout": "25 seconds"})
    assert "syncTimeout: exactly-once needs more than 25 seconds" in refusal(tmp_path, short)
    slow = changed({**base, "target/kafka/producer/transaction.timeout.ms": 20_000})
    assert "needs more than 30 seconds" in refusal(tmp_path, slow)
    load_text(tmp_path, changed({**base, "coordination/commit/syncTimeout": "25001 milliseconds"}))
    load_text(tmp_path, changed({"coordination/commit/syncTimeout": "10 seconds"}))


def test_a_batch_ends_before_its_transaction_times_out(tmp_path: Path) -> None:
    base = {"features/exactlyOnce": "enabled", "coordination/commit/batchTimeout": "15 seconds"}
    said = refusal(tmp_path, changed(base))
    assert "batchTimeout: exactly-once needs less than 15 seconds (the producer's transaction.timeout.ms" in said
    assert "found 15 seconds" in said
    load_text(tmp_path, changed({**base, "coordination/commit/batchTimeout": "14999 milliseconds"}))
    load_text(
        tmp_path, changed({"features/exactlyOnce": "enabled", "target/kafka/producer/transaction.timeout.ms": 1000})
    )
    load_text(tmp_path, changed({"coordination/commit/batchTimeout": "1 minute"}))


def test_warnings_name_keys_once_by_reason(tmp_path: Path) -> None:
    changes = {
        "source/kafka/common/metric.reporters": "x",
        "source/kafka/consumer/max.poll.records": 5,
        "source/kafka/consumer/session.timeout.ms": 5,
        "source/kafka/consumer/heartbeat.interval.ms": 5,
        "configuration/pipelineParallelism": 2,
    }
    assert load_text(tmp_path, changed(changes)).warnings == (
        'no effect: source.kafka.common."metric.reporters": metrics of the Java client',
        'no effect: source.kafka.consumer."max.poll.records": the engine sizes its own batches',
        'no effect: source.kafka.consumer."session.timeout.ms", source.kafka.consumer."heartbeat.interval.ms": '
        "no consumer group is joined: partitions are assigned",
        "no effect: configuration.pipelineParallelism: slots do the work (partitionParallelism)",
    )


def test_a_size_of_a_registrys_cache_is_named_where_ids_are_mapped(tmp_path: Path) -> None:
    registry = {"config": {"schema.registry.url": "http://r:8081"}}
    changes = {"source/registry": {**registry, "cacheSize": 5}, "target/registry": registry}
    assert load_text(tmp_path, changed(changes)).warnings == ()
    (warning,) = load_text(tmp_path, changed({**changes, "features/schemaMapping": "enabled"})).warnings
    assert warning.startswith("no effect: source.registry.cacheSize: ")


JAVA_NAMES = Path(__file__).with_name("java_client_names.txt")


def test_every_java_name_has_a_fate() -> None:
    kinds: dict[str, ClientKind] = {"C": "consumer", "P": "producer", "A": "admin"}
    lines = [line.split() for line in JAVA_NAMES.read_text().splitlines() if not line.startswith("#")]
    assert len(lines) > 130
    for name, clients in lines:
        for letter in clients:
            faults = translated(kinds[letter], {name: "1"}).faults
            assert not [fault for fault in faults if "unknown property" in fault.text], name


def test_the_real_library_knows_every_name() -> None:
    def is_known(name: str) -> bool:
        try:
            Producer({name: "\x01"})
        except TypeError:
            return True  # known, and a boolean
        except KafkaException as error:
            return "No such configuration property" not in str(error)
        return True

    names = librdkafka_names.NAMES | {rule.to for rule in RULES.values() if isinstance(rule, Renamed)}
    assert [name for name in sorted(names) if not is_known(name)] == []


JAAS = 'a.PlainLoginModule required username="jaas" password="of jaas";'
USER: dict[str, Scalar] = {"sasl.username": "user", "sasl.password": "of user"}


@pytest.mark.parametrize(
    ("common", "own", "username", "password"),
    [
        (USER, {"sasl.jaas.config": JAAS}, "jaas", "of jaas"),
        ({"sasl.jaas.config": JAAS}, USER, "user", "of user"),
        ({"sasl.jaas.config": JAAS}, {}, "jaas", "of jaas"),
        (USER, {"sasl.password": "own"}, "user", "own"),
        ({"sasl.jaas.config": JAAS}, {"sasl.password": "own"}, "jaas", "own"),
        ({**USER, "sasl.jaas.config": JAAS}, {}, "user", "of user"),
    ],
)
def test_the_login_of_the_section_wins_however_it_is_written(
    common: Mapping[str, Scalar], own: Mapping[str, Scalar], username: str, password: str
) -> None:
    values = translated("consumer", own, common=common).values
    assert (values["sasl.username"], values["sasl.password"]) == (username, password)


def test_the_real_library_takes_what_is_translated(tmp_path: Path) -> None:
    changes = {
        "features/exactlyOnce": "enabled",
        "source/kafka/consumer": {
            "group.id": "g",
            "fetch.max.wait.ms": 100,
            "check.crcs": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "none",
        },
        "target/kafka/producer": {
            "acks": "all",
            "enable.idempotence": True,
            "buffer.memory": 33_554_432,
            "compression.type": "zstd",
            "compression.zstd.level": 3,
            "request.timeout.ms": 30_000,
            "delivery.timeout.ms": 120_000,
            "linger.ms": 5,
            "retries": 2147483647,
            "max.in.flight.requests.per.connection": 5,
            "partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
        },
        "target/kafka/admin": {"request.timeout.ms": 1000, "retries": 3},
    }
    pipeline = load_text(tmp_path, changed(changes))
    Consumer(pipeline.client_properties("source", "consumer")).close()
    AdminClient(pipeline.client_properties("target", "admin"))
    transactional = {"transactional.id": "t", "transaction.timeout.ms": 15_000}
    Producer({**pipeline.client_properties("target", "producer"), **transactional})
