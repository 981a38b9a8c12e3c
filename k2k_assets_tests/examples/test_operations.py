"""What `docs/operations.md` tells an operator: commands of the system, and services by the rules of their units."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from k2k_assets.core.deadline import wait_until
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, delete_records, produce, read_all, topics, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.services.http_server import json_answer
from k2k_assets_tests.support.services.operations_page import (
    FILES,
    INSTALLATION,
    PROGRAMS,
    UNITS,
    USER,
    Shell,
    below,
    commands,
)
from k2k_assets_tests.support.services.systemd import Service, service

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "examples" / "deploy" / "systemd" / "k2k@.service"
_SECONDS = 300.0
PORT = {"OTEL_EXPORTER_PROMETHEUS_PORT": "0", "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1"}
_IS_ROOT = os.geteuid() == 0


def test_each_command_of_the_page_is_run_by_a_test() -> None:
    """Here, or in `test_wheel.py`: whoever adds another one adds the test that runs it."""
    assert sorted(commands()) == sorted(commands(*INSTALLATION, *FILES, USER, *UNITS, *PROGRAMS))


def test_files_and_links_are_as_a_service_needs_them(tmp_path: Path) -> None:
    for folder in ("opt/k2k-0.1.0/bin", "opt/k2k-0.2.0/bin", "etc"):
        (tmp_path / folder).mkdir(parents=True)
    program = tmp_path / "opt/k2k-0.2.0/bin/k2k"
    program.write_text("the next version")
    program.chmod(0o755)
    (tmp_path / "orders.yaml").write_text("name: orders\n")
    group = str(os.getgid())
    script = "\n".join(below(tmp_path, line) for line in commands(*FILES)).replace("-g k2k ", f"-g {group} ")
    script += '\ntest "$(command -v k2k)" = "$(pwd)/opt/k2k/bin/k2k"'
    subprocess.run(["bash", "-ec", script], cwd=tmp_path, timeout=30, check=True)
    assert (tmp_path / "etc/k2k").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "etc/k2k/orders.yaml").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "opt/k2k/bin/k2k").read_text() == "the next version"


def test_the_user_is_the_one_of_the_units() -> None:
    (made,) = [line.split() for line in commands(USER)]
    for path in UNIT.parent.glob("*.service"):
        assert f"\nUser={made[-1]}\n" in path.read_text()


@pytest.mark.skipif(shutil.which("useradd") is None, reason="useradd is not on this machine")
@pytest.mark.skipif(not _IS_ROOT, reason="useradd works for root alone, also with --prefix")
def test_the_user_is_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (line,) = commands(USER)
    made = line.replace("useradd ", f"useradd --prefix {tmp_path} ", 1)
    subprocess.run(shlex.split(made), timeout=30, check=True)
    name, _, number, _, _, home, shell = (tmp_path / "etc/passwd").read_text().strip().split(":")
    assert (name, home, shell) == ("k2k", "/var/lib/k2k", "/usr/sbin/nologin")
    assert 0 < int(number) < 1000, "a user of the system"
    assert (tmp_path / "etc/group").read_text().startswith("k2k:")
    assert not (tmp_path / "var/lib/k2k").exists(), "the units make it: StateDirectory"


@pytest.mark.skipif(shutil.which("systemctl") is None, reason="systemd is not on this machine")
def test_systemd_enables_the_units(tmp_path: Path) -> None:
    """What needs a running systemd, to start them now, is done in the next test but one by the rules of the units."""
    units = tmp_path / "etc/systemd/system"
    units.mkdir(parents=True)
    for path in UNIT.parent.glob("*.service"):
        shutil.copy(path, units)
    (line,) = commands("systemctl enable ")
    here = shlex.split(line.replace("systemctl ", f"systemctl --root={tmp_path} ", 1))
    subprocess.run([word for word in here if word != "--now"], capture_output=True, timeout=30, check=True)
    wanted = {path.name: path.readlink().name for path in (units / "multi-user.target.wants").iterdir()}
    assert wanted == {
        "k2k@orders.service": "k2k@.service",
        "k2k-offset-mapping@orders.service": "k2k-offset-mapping@.service",
        "k2k-tool-server.service": "k2k-tool-server.service",
    }


class Systemd:
    """Starts units as `systemctl` does, by the rules that are written in them.

    Args:
        root: Stands in for `/`.
        stack: Stops them at its end.
    """

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self._root, self._stack = root, stack
        self.services: dict[str, Service] = {}

    def systemctl(self, line: str) -> None:
        """Carries out a line of the page."""
        command, *names = [word for word in shlex.split(line)[1:] if not word.startswith("-")]
        assert command in ("daemon-reload", "enable", "restart"), line
        for name in names:
            if command == "restart":
                assert self.services[name].stop() == 0, self.services[name].log.read_text()
            unit, _, instance = name.partition("@")
            path = UNIT.parent / f"{unit}{'@' if instance else ''}.service"
            more = ("-p", "0") if unit == "k2k-tool-server" else ()  # the port of the unit may be somebody's here
            made = service(path, instance, self._root, PORT, self._root / "opt/k2k/bin", more)
            self.services[name] = self._stack.enter_context(made)


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.spark
def test_the_commands_of_k2k_and_of_its_services_do_what_the_page_says(root: Path, clusters: KafkaSandbox) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic, other = (create_topic(source, f"{unique('orders')}.{name}") for name in ("eu", "us"))
    for each in (topic, other):
        produce(source, each, [b"%d" % n for n in range(10)])
    programs = root / "opt/k2k-0.1.0/bin"
    for folder in (programs, root / "opt/k2k-0.2.0/bin"):
        folder.mkdir(parents=True)
        for name in ("k2k", "k2k-tool", "k2k-offset-mapping"):
            (folder / name).symlink_to(Path(sys.executable).parent / name)
    link, next_link = (below(root, line) for line in commands("ln "))
    subprocess.run(shlex.split(link), timeout=30, check=True)
    shell = Shell(
        root, root / "opt/k2k/bin",
        {"source.example:9092": source, "target.example:9092": target, "-o orders.eu:": f"-o {topic}:"},
    )  # fmt: skip

    def await_copied(values: list[bytes]) -> None:
        def copied() -> bool:
            ended = [name for name, each in systemd.services.items() if each.ended.is_set()]
            assert not ended, systemd.services[ended[0]].log.read_text()
            return topic in topics(target) and [record.value for record in read_all(target, topic)] == values

        wait_until(copied, _SECONDS, f"{len(values)} records", interval=0.3)

    # The pipeline.
    shell.run("k2k init")
    name = narrowed(root / "orders.yaml", [topic, other])
    assert "is valid" in shell.run("k2k validate")
    permissions = shell.run("k2k acls")
    assert "kafka-acls.sh" in permissions
    assert topic in permissions
    shutil.copy(root / "orders.yaml", root / "etc/k2k/orders.yaml")
    with ExitStack() as stack:
        # Start.
        systemd = Systemd(root, stack)
        for line in commands("systemctl daemon-reload", "systemctl enable"):
            systemd.systemctl(line)
        first = [b"%d" % n for n in range(10)]
        await_copied(first)
        # Watch.
        assert shell.watch("k2k status", lambda shown: topic in shown) == 0
        assert shell.watch("k2k-tool server", lambda shown: "(Ctrl-C ends it)" in shown, more=" -p 0") == 0
        (page,) = re.findall(r"http://127\.0\.0\.1:\d+", systemd.services["k2k-tool-server"].log.read_text())
        assert name in str(json_answer(page, "/api/v1/pipelines")[1])
        # When a topic is stopped.
        copying = systemd.services["k2k@orders"]
        told = "-f", root / "etc/k2k/orders.yaml", topic
        subprocess.run([root / "opt/k2k/bin/k2k-tool", "pause", *told], timeout=_SECONDS, check=True)
        wait_until(lambda: f": paused: {topic}-0" in copying.log.read_text(), _SECONDS, "its slot to leave it out")
        produce(source, topic, [b"lost", b"late"])
        delete_records(source, topic, 0, 11)
        subprocess.run([root / "opt/k2k/bin/k2k-tool", "resume", *told], timeout=_SECONDS, check=True)
        wait_until(lambda: '"code": "records-deleted"' in copying.log.read_text(), _SECONDS, "the stop")
        assert "11" in shell.run("k2k-tool set"), "what --dry-run would set"
        shell.run("k2k-tool set")
        await_copied([*first, b"late"])
        # To the next version.
        subprocess.run(shlex.split(next_link), timeout=30, check=True)
        for line in commands("systemctl restart"):
            systemd.systemctl(line)
        produce(source, topic, [b"of the next version"])
        await_copied([*first, b"late", b"of the next version"])
        assert all(each.stop() == 0 for each in systemd.services.values())
    assert shell.left == []


def narrowed(file: Path, names: Sequence[str]) -> str:
    """Makes the file copy these topics alone, under a name that nobody else has, for the clusters are shared.

    Returns:
        The name.
    """
    document, name = yaml.safe_load(file.read_text()), unique("orders")
    selection = document["replication"][0]
    selection["source"]["topic"] = [*names]
    document["name"], document["source"]["kafka"]["consumer"]["group.id"] = name, f"k2k.{name}"
    document["spark"] = {"master": "local[2]"}
    document["sync"] = {"metadataInterval": "2 seconds"}
    document["groups"] = {"consumerGroups": f"{name}-.*"}
    file.write_text(yaml.safe_dump(document))
    return name


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("etc/k2k", "var/lib/k2k"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def await_copying(run: Service, number: int) -> None:
    """Waits until a start has drawn its generation: what its predecessor's workers still do counts for nothing."""

    def copies() -> bool:
        assert not run.ended.is_set(), run.log.read_text()
        begun = [line for line in run.log.read_text().splitlines() if '"message": "generation ' in line]
        return run.starts == number and any(f':{run.process.pid}"' in line for line in begun)

    wait_until(copies, _SECONDS, f"start {number} to copy", interval=0.2)


@pytest.mark.slow
@pytest.mark.integration
@pytest.mark.spark
def test_a_service_goes_on_after_a_kill_and_ends_well_when_stopped(root: Path, clusters: KafkaSandbox) -> None:
    topic = create_topic(clusters.source_servers, unique("orders"))
    made = write_pipeline(
        root,
        clusters.source_servers,
        "${TARGET_SERVERS}",
        [topic],
        features={"exactlyOnce": "enabled", "autoCreateTopics": "enabled"},
        coordination={"assignment": {"graceWindow": "2 seconds"}},
    )
    shutil.move(made, root / "etc/k2k/orders.yaml")
    (root / "etc/k2k/k2k.env").write_text(f"# of all units\nTARGET_SERVERS={clusters.target_servers}\n")

    def await_copied(count: int) -> None:
        def copied() -> bool:
            assert not run.ended.is_set(), run.log.read_text()
            target = clusters.target_servers
            return topic in topics(target) and len(read_all(target, topic)) == count

        wait_until(copied, _SECONDS, f"{count} records", interval=0.3)

    produce(clusters.source_servers, topic, [b"first"])
    with service(UNIT, "orders", root, PORT) as run:
        await_copied(1)
        os.kill(run.process.pid, signal.SIGKILL)
        await_copying(run, 2)
        produce(clusters.source_servers, topic, [b"second"])
        await_copied(2)
        assert run.stop() == 0, run.log.read_text()
        assert run.starts == 2
    assert '"level": "INFO"' in run.log.read_text(), "lines are JSON, as the unit says"
    assert "Traceback" not in run.log.read_text()


@pytest.mark.processes
def test_a_service_whose_file_has_a_fault_is_not_started_again(root: Path) -> None:
    (root / "etc/k2k/orders.yaml").write_text("name: orders\nno such key: 1\n")
    with service(UNIT, "orders", root, PORT) as run:
        assert run.ended.wait(_SECONDS)
        assert (run.process.returncode, run.starts) == (2, 1)
    assert "no such key" in run.log.read_text()
