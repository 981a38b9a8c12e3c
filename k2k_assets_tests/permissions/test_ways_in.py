"""Authentication on secured clusters: accepted methods, with a read-only source, and refused ones."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation

from k2k_assets.cli.main import run
from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.principals import REPLICATOR, acls_of
from k2k_assets_tests.support.brokers import kafka, secure
from k2k_assets_tests.support.brokers.secure import (
    mtls,
    pem_texts,
    scram,
    secrets_of,
    secure_pipeline,
    write_secure_pipeline,
)
from k2k_assets_tests.support.copies.copying import assert_same_content, copy

pytestmark = pytest.mark.integration

EXACT = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}
READING = {AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS}


@pytest.fixture
def topic(secure_clusters: KafkaSandbox) -> str:
    """A topic of the source with 200 records in two partitions."""
    name = kafka.create_topic(secure_clusters.source.mtls_servers, kafka.unique("secured"), 2)
    for partition in range(2):
        kafka.produce(secure_clusters.source.mtls_servers, name, [b"%d" % n for n in range(100)], partition)
    return name


def _assert_copied(clusters: KafkaSandbox, pipeline: Pipeline, topic: str) -> None:
    outcome = copy(pipeline)
    assert not outcome.stopped
    assert assert_same_content(clusters.source.mtls_servers, topic, clusters.target.mtls_servers) == 200


# -- ways in --------------------------------------------------------------------------------------------------------


def test_scram_with_passwords_from_files_and_a_source_that_may_only_be_read(
    secure_clusters: KafkaSandbox, topic: str, tmp_path: Path
) -> None:
    source, target = secure_clusters.source, secure_clusters.target
    rights = {acl.operation for acl in acls_of(secure.admin(source), REPLICATOR)}
    assert rights <= READING  # G5: the cluster itself would refuse anything else
    _assert_copied(
        secure_clusters, secure_pipeline(tmp_path, scram(source), scram(target), [topic], features=EXACT), topic
    )


def test_scram_with_java_names_and_passwords_from_the_environment(
    secure_clusters: KafkaSandbox, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = []
    for broker in (secure_clusters.source, secure_clusters.target):
        password = broker.security.password_file(REPLICATOR).read_text()
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        monkeypatch.setenv(f"{broker.role}_JAAS", f'{module} username="{REPLICATOR}" password="{password}";')
        sides.append(
            {
                "bootstrap.servers": broker.servers,
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f"${{env:string:{broker.role}_JAAS}}",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(broker.security.authority_file),
            }
        )
    _assert_copied(secure_clusters, secure_pipeline(tmp_path, *sides, [topic]), topic)


def test_client_certificates_from_files(secure_clusters: KafkaSandbox, topic: str, tmp_path: Path) -> None:
    sides = mtls(secure_clusters.source), mtls(secure_clusters.target)
    _assert_copied(secure_clusters, secure_pipeline(tmp_path, *sides, [topic], features=EXACT), topic)


def test_client_certificates_as_pem_texts(secure_clusters: KafkaSandbox, topic: str, tmp_path: Path) -> None:
    sides = pem_texts(secure_clusters.source), pem_texts(secure_clusters.target)
    pipeline = secure_pipeline(tmp_path, *sides, [topic])
    assert "PRIVATE KEY" not in repr(pipeline)
    _assert_copied(secure_clusters, pipeline, topic)


# -- doors that stay closed -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sasl.password": "wrong-password-4711"}, "refuses the login: .*SASL authentication error"),
        ({"sasl.username": "nobody"}, "refuses the login: .*SASL authentication error"),
        ({"ssl.ca.location": "OTHER"}, "cannot be talked to over TLS: .*certificate verify failed"),
    ],
    ids=["wrong password", "unknown user", "unknown authority"],
)
def test_who_is_not_let_in_is_told_why(
    secure_clusters: KafkaSandbox,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    side: str,
    change: dict[str, str],
    said: str,
) -> None:
    brokers = {"source": secure_clusters.source, "target": secure_clusters.target}
    other = brokers["target" if side == "source" else "source"].security.authority_file
    sides = {role: scram(broker) for role, broker in brokers.items()}
    sides[side] |= {key: str(other) if value == "OTHER" else value for key, value in change.items()}
    path = write_secure_pipeline(tmp_path, sides["source"], sides["target"], [topic])
    log = tmp_path / "termination-log"
    begin = time.monotonic()
    assert run(["start", "--once", "-f", str(path), "-l", str(log)]) == 3
    assert time.monotonic() - begin < 120
    shown = capsys.readouterr().err
    assert re.search(f"the {side} cluster at {brokers[side].servers} {said}", shown), shown
    assert "Traceback" not in shown
    assert log.read_text() in shown.replace("Error: ", "")
    for secret in ("wrong-password", *map(bytes.decode, secrets_of(*brokers.values()).values())):
        assert secret not in shown + log.read_text()
