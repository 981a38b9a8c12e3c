"""`k2k convert`: its files, its output, and secrets that it never prints."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from k2k_assets.cli.main import run
from k2k_assets.pipeline import load_pipeline

PROPERTIES = """
# specify any number of cluster aliases
clusters = primary, backup
primary.bootstrap.servers = p1:9093, p2:9093
backup.bootstrap.servers = b:9092
primary.security.protocol = SASL_SSL
primary.sasl.mechanism = SCRAM-SHA-512
primary.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="mm2" password="hunter2${x}";
primary.consumer.ssl.keystore.password = hunter3
primary->backup.enabled = true
primary->backup.topics = orders.*, payments
backup->primary.enabled = true
backup->primary.topics = audit
replication.factor = 1
emit.heartbeats.interval.seconds = 5
primary->backup.sync.topic.acls.enabled = false
unheard.of = hunter4
"""


@pytest.fixture
def properties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mm2.properties").write_text(PROPERTIES)
    return tmp_path / "mm2.properties"


def test_each_flow_becomes_a_valid_file_and_keys_without_counterpart_are_told(
    properties: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["convert", "mm2.properties"]) == 0
    said = capsys.readouterr()
    lines = [line.strip() for line in said.out.splitlines()]
    assert "primary->backup: primary-to-backup.yaml" in lines
    assert "backup->primary: backup-to-primary.yaml" in lines
    acls = "ACLs are not copied by themselves: see `k2k topics plan -f FILE`, and `k2k topics apply`"
    assert f"primary->backup.sync.topic.acls.enabled: {acls}" in lines
    assert not any(line.startswith("replication.factor") for line in lines)
    assert any(line.startswith("unheard.of: unknown to this command") for line in lines)
    assert "k2k validate -f primary-to-backup.yaml --connect" in lines
    assert "hunter" not in said.out + said.err
    there, back = (load_pipeline([f"{name}.yaml"]) for name in ("primary-to-backup", "backup-to-primary"))
    assert there.client_properties("source", "consumer")["sasl.password"] == "hunter2${x}"
    replication = there.topic_creation.replication
    assert replication is not None
    assert replication.common.replication == 1
    assert there.selection.matches("orders.eu")
    assert not there.selection.matches("audit")
    assert back.client_properties("target", "producer")["sasl.password"] == "hunter2${x}"
    for name in ("primary-to-backup", "backup-to-primary"):
        assert run(["validate", "-f", f"{name}.yaml"]) == 0
        assert stat.S_IMODE(Path(f"{name}.yaml").stat().st_mode) == 0o600, "it holds passwords"
    assert "hunter" not in capsys.readouterr().out


def test_files_of_the_users_stay_without_force(properties: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (properties.parent / "out").mkdir()
    mine = properties.parent / "out" / "backup-to-primary.yaml"
    mine.write_text("mine")
    assert run(["convert", "mm2.properties", "--output", "out"]) == 2
    assert "out/backup-to-primary.yaml exists" in capsys.readouterr().err
    assert [file.name for file in mine.parent.iterdir()] == ["backup-to-primary.yaml"], "all or nothing"
    assert mine.read_text() == "mine"
    assert run(["convert", "mm2.properties", "--output", "out", "--force"]) == 0
    assert load_pipeline([mine]).name == "backup-to-primary"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name: orders\n", "no key 'clusters': this is not a properties file of MirrorMaker 2"),
        (b"clusters = \xff", "expected UTF-8 text"),
        (b"clusters = A, B\n", "no flow is enabled"),
        (
            b"clusters=A,B\nA->B.enabled=true\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\ntasks.max=0",
            "partitionParallelism",
        ),
    ],
)
def test_what_cannot_be_converted_is_said(
    content: bytes, said: str, properties: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    properties.write_bytes(content)
    assert run(["convert", str(properties)]) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert "Traceback" not in errors
    assert list(properties.parent.glob("*.yaml")) == []
    assert run(["convert", "nothing.properties"]) == 2
    assert "nothing.properties: cannot be read: No such file" in capsys.readouterr().err
