"""What `docs/operations.md` tells an operator: commands of the system, and services by the rules of their units."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, topics, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.services.systemd import Service, service

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "examples" / "deploy" / "systemd" / "k2k@.service"
_SECONDS = 120.0
_WALKED = ("useradd ", "install ", "ln ", "export ")
PORT = {"OTEL_EXPORTER_PROMETHEUS_PORT": "0", "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1"}


def commands() -> list[str]:
    """The page's commands of the shell and of the system, in order."""
    page = (ROOT / "docs" / "operations.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith(_WALKED)]


def test_files_and_links_are_as_a_service_needs_them(tmp_path: Path) -> None:
    for folder in ("opt/k2k-0.1.0/bin", "opt/k2k-0.2.0/bin", "etc"):
        (tmp_path / folder).mkdir(parents=True)
    program = tmp_path / "opt/k2k-0.2.0/bin/k2k"
    program.write_text("the next version")
    program.chmod(0o755)
    (tmp_path / "orders.yaml").write_text("name: orders\n")
    group = str(os.getgid())
    script = "\n".join(line for line in commands() if not line.startswith("useradd"))
    script = re.sub(r"(?<=[ =])/(opt|etc)/", rf"{tmp_path}/\1/", script).replace("-g k2k ", f"-g {group} ")
    script += '\ntest "$(command -v k2k)" = "$(pwd)/opt/k2k/bin/k2k"'
    subprocess.run(["bash", "-ec", script], cwd=tmp_path, timeout=30, check=True)
    assert (tmp_path / "etc/k2k").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "etc/k2k/orders.yaml").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "opt/k2k/bin/k2k").read_text() == "the next version"


def test_the_user_is_the_one_of_the_units() -> None:
    (made,) = [line.split() for line in commands() if line.startswith("useradd")]
    for path in UNIT.parent.glob("*.service"):
        assert f"\nUser={made[-1]}\n" in path.read_text()
    if shutil.which("useradd"):
        told = subprocess.run(["useradd", "--help"], capture_output=True, text=True, timeout=30, check=False).stdout
        assert all(option in told for option in made if option.startswith("--"))


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
@pytest.mark.timeout(300)
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


def test_a_service_whose_file_has_a_fault_is_not_started_again(root: Path) -> None:
    (root / "etc/k2k/orders.yaml").write_text("name: orders\nno such key: 1\n")
    with service(UNIT, "orders", root, PORT) as run:
        assert run.ended.wait(_SECONDS)
        assert (run.process.returncode, run.starts) == (2, 1)
    assert "no such key" in run.log.read_text()
