"""`k2k acls` prints exactly the required permissions, as commands and as JSON."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from k2k_assets.cli.main import run
from k2k_assets.permissions.required import PROGRAMS, Program, programs_of, required
from k2k_assets.pipeline import load_pipeline
from k2k_assets_tests.support.brokers.acl_commands import granted
from k2k_assets_tests.support.copies.pipelines import write_pipeline

SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.password": "hunter2"}


def _file(directory: Path, topics: Any = ("orders", "payments"), **rest: Any) -> Path:
    kafka: dict[str, Any] = {
        role: {"kafka": {"common": {"bootstrap.servers": f"{role}:9093", "sasl.username": f"{role}-user", **SCRAM}}}
        for role in ("source", "target")
    }
    kafka["source"]["kafka"]["consumer"] = {"group.id": "g"}
    return write_pipeline(directory, "", "", topics, features={"offsetMapping": "enabled"}, **kafka, **rest)


def _printed(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> str:
    assert run(["acls", "-f", str(path), *options]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("topics", [["orders", "payments"], r"shop\..*|it's", ".*"])
@pytest.mark.parametrize("programs", [(), *((each,) for each in PROGRAMS), ("mapper", "checks")], ids=str)
def test_the_commands_grant_what_is_required(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], topics: Any, programs: Sequence[Program]
) -> None:
    path = _file(tmp_path, topics)
    pipeline = load_pipeline([path])
    printed = _printed(capsys, path, *(word for each in programs for word in ("--for", each)))
    found = [
        (
            servers,
            ResourceType(acl.restype).name,
            acl.name,
            ResourcePatternType(acl.resource_pattern_type).name,
            acl.principal,
            AclOperation(acl.operation).name,
        )
        for servers, acls in granted(printed).items()
        for acl in acls
    ]
    expected = [
        (
            f"{each.cluster}:9093",
            each.resource.replace(" ", "_").upper(),
            each.pattern.name,
            "PREFIXED" if each.pattern.prefixed else "LITERAL",
            f"User:{each.cluster}-user",
            each.operation.replace("DescribeConfigs", "DESCRIBE_CONFIGS").upper(),
        )
        for each in required(pipeline, programs or programs_of(pipeline))
    ]
    assert sorted(found) == sorted(expected)
    assert "hunter2" not in printed


def test_one_cluster_comes_after_the_other_with_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = _printed(capsys, _file(tmp_path)).splitlines()
    assert lines[0] == "# The source cluster, which is only read."
    second = lines.index("# The target cluster.")
    assert all("source:9093" in line for line in lines[:second] if not line.startswith("#") and line)
    assert "#   Read: copy the records; compare the content of both sides" in lines
    assert "#   NOTE: the selection has no literal beginning, so this is every group of the cluster" in lines
    commands = [line for line in lines if line.startswith("kafka-acls.sh")]
    assert commands[0] == (
        "kafka-acls.sh --bootstrap-server source:9093 --command-config source-admin.properties "
        "--add --allow-principal User:source-user "
        "--operation Read --operation DescribeConfigs --topic orders --topic payments"
    )


def test_what_is_optional_is_a_comment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _file(tmp_path)
    *_, last = _printed(capsys, path).splitlines()
    assert last == (
        "# kafka-acls.sh --bootstrap-server target:9093 --command-config target-admin.properties "
        "--add --allow-principal User:target-user --operation DescribeConfigs --cluster"
    )
    assert "--cluster" not in _printed(capsys, path, "--for", "checks")


def test_no_part_of_a_name_is_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line break in a quoted word would end a comment."""
    hostile = "k2k\ntouch pwned #"
    kafka = {"kafka": {"common": {"bootstrap.servers": "t:9093", **SCRAM, "sasl.username": hostile}}}
    path = write_pipeline(tmp_path, "s:9092", "", ["orders"], target=kafka)
    script = _printed(capsys, path, "--source-principal", "User:k2k")
    assert "touch pwned" in script
    stub = tmp_path / "kafka-acls.sh"
    stub.write_text("#!/bin/sh\n")
    stub.chmod(0o700)
    path_of_programs = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["sh", "-c", script], cwd=tmp_path, env={"PATH": path_of_programs}, check=True, timeout=30)
    assert not (tmp_path / "pwned").exists()


def test_failback_is_said_to_write_to_the_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _printed(capsys, _file(tmp_path), "--for", "failback").startswith("# The source cluster.\n")


def test_options_replace_what_the_file_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--principal", "User:a", "--target-principal", "User:b", "--source-bootstrap-server", "s:1"]
    options += ["--target-bootstrap-server", "t:1", "--source-command-config", "x.properties"]
    printed = _printed(capsys, _file(tmp_path), *options)
    assert {server: {acl.principal for acl in acls} for server, acls in granted(printed).items()} == {
        "s:1": {"User:a"},
        "t:1": {"User:b"},
    }
    assert "--command-config x.properties" in printed
    assert "--command-config target-admin.properties" in printed


def test_json_has_one_row_for_each_acl(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _file(tmp_path)
    rows = json.loads(_printed(capsys, path, "--format", "json"))
    assert len(rows) == sum(map(len, granted(_printed(capsys, path)).values()))
    first = {name: value for name, value in rows[0].items() if name != "why"}
    assert first == {
        "cluster": "source",
        "bootstrapServers": "source:9093",
        "principal": "User:source-user",
        "host": "*",
        "permissionType": "ALLOW",
        "resourceType": "TOPIC",
        "patternType": "LITERAL",
        "name": "orders",
        "operation": "READ",
    }
    assert {row["operation"] for row in rows} == {"READ", "WRITE", "CREATE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS"}


def test_a_principal_that_only_the_broker_knows_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = {"bootstrap.servers": "t:1", "security.protocol": "SSL", "ssl.certificate.location": "c.pem"}
    path = write_pipeline(tmp_path, "s:1", "", ["a"], target={"kafka": {"common": common}})
    assert run(["acls", "-f", str(path)]) == 2
    assert "--target-principal" in capsys.readouterr().err
    assert "User:CN=k2k" in _printed(capsys, path, "--target-principal", "User:CN=k2k")


def test_a_mapper_s_own_file_will_do_for_the_mapper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mapper.yaml"
    clusters = {role: {"kafka": {"common": {"bootstrap.servers": f"{role}:1"}}} for role in ("source", "target")}
    path.write_text(json.dumps({"name": "m", **clusters}))
    printed = _printed(capsys, path, "--for", "mapper")
    assert {acl.name for acl in granted(printed)["source:1"]} == {"*"}
