"""Kafka's `kafka-acls.sh` accepts the commands of `k2k acls`, and exactly these permissions are enough for a copy."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, ResourceType

from k2k_assets.cli.main import run
from k2k_assets.core.deadline import wait_until
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import Broker, KafkaSandbox
from k2k_assets.sandbox.principals import acls_of, binding
from k2k_assets_tests.permissions.permissions_fixture import PermissionsFixture
from k2k_assets_tests.support.brokers import kafka, secure
from k2k_assets_tests.support.brokers.acl_commands import granted
from k2k_assets_tests.support.brokers.kafka_tools import tool
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, assert_same_content, copy

pytestmark = [pytest.mark.integration, pytest.mark.storm]

RECORDS = 30


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `kafka-acls.sh` that does what Kafka's does: hands its arguments to Kafka's program."""
    folder = tmp_path_factory.mktemp("tools")
    script = folder / "kafka-acls.sh"
    script.write_text(f'#!/bin/sh\nexec {shlex.join(tool("AclCommand"))} "$@"\n')
    script.chmod(0o700)
    return folder


def _command_config(broker: Broker, folder: Path) -> Path:
    """The client properties of the administrator, by Java's names."""
    security = broker.security
    properties = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": security.authority_file,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": security.certificate_file("admin"),
    }
    path = folder / f"{broker.role}-admin.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


@pytest.mark.parametrize("by_pattern", [False, True])
def test_what_is_printed_is_taken_and_is_enough(
    secure_clusters: KafkaSandbox, tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], by_pattern: bool
) -> None:
    fixture = PermissionsFixture(secure_clusters, tmp_path)
    source, target = fixture.servers("source"), fixture.servers("target")
    topic = kafka.create_topic(source, kafka.unique("guarded"))
    kafka.produce(source, topic, [b"%d" % n for n in range(RECORDS)], 0, kafka.unique("tx"))
    path = fixture.pipeline_file(f"{topic}.*" if by_pattern else [topic])
    options = [
        word
        for role, broker in fixture.brokers.items()
        for word in (
            *(f"--{role}-bootstrap-server", fixture.servers(role)),
            *(f"--{role}-command-config", str(_command_config(broker, tmp_path))),
        )
    ]
    capsys.readouterr()
    assert run(["acls", "-f", str(path), *options]) == 0
    printed = capsys.readouterr().out
    of_source, _, _ = printed.partition("# The target cluster.")
    assert ("--resource-pattern-type prefixed" in of_source) == by_pattern

    optional = printed.replace("\n# kafka-acls.sh", "\nkafka-acls.sh")
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-e"], input=optional, capture_output=True, text=True, env=environment, timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

    wanted: dict[str, set[AclBinding]] = {
        role: set(granted(printed)[fixture.servers(role)]) for role in fixture.brokers
    }
    wanted["target"].add(binding(fixture.user, ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS))

    def has() -> dict[str, set[AclBinding]]:
        return {role: acls_of(secure.admin(broker), fixture.user) for role, broker in fixture.brokers.items()}

    wait_until(lambda: has() == wanted, 120, "the ACLs to be those that were printed")

    pipeline = load_pipeline([path])
    for _ in range(2):  # the second run takes over from the first, and fences its slots
        assert not copy(pipeline).stopped
    assert assert_same_content(source, topic, target, pipeline.routing.target_topic(topic)) == RECORDS
    assert_exact_mappings(pipeline, source, target, topic)
