"""What `examples/deploy` says for Docker, Compose, systemd, Kubernetes and Helm, compared with the product."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2k_assets import orchestration
from k2k_assets.pipeline import load_pipeline
from k2k_assets.telemetry.endpoint import application
from k2k_assets.telemetry.health import Health
from k2k_assets_tests.support.suite.command_lines import PROGRAMS, parse

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"
COMPOSE = DEPLOY / "compose"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
IMAGE = (DEPLOY / "docker" / "Dockerfile").read_text()
PASSWORDS = {"SOURCE_PASSWORD": "a", "TARGET_PASSWORD": "b", "SOURCE_SERVERS": "s:1", "TARGET_SERVERS": "t:1"}


def _compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
    return found


def _manifests(kind: str) -> Iterator[dict[str, Any]]:
    for document in yaml.safe_load_all((DEPLOY / "kubernetes" / "k2k.yaml").read_text()):
        if document["kind"] == kind:
            yield document


# -- Compose --------------------------------------------------------------------------------------------------


@pytest.mark.processes
@pytest.mark.parametrize("name", [name for name, one in _compose()["services"].items() if one["image"] == "k2k-assets"])
def test_a_service_of_compose_runs_a_command_that_is_there(name: str) -> None:
    command = _compose()["services"][name]["entrypoint"]
    program, arguments = command[0], command[1:]
    if program in PROGRAMS:
        parse(PROGRAMS[program], arguments)
    else:
        done = subprocess.run(
            [Path(sys.executable).parent / program, *_commands(arguments), "--help"],
            capture_output=True, text=True, timeout=500, check=True,
        )  # fmt: skip
        for option in (one for one in arguments if one.startswith("-")):
            assert re.search(rf"(^|\s){re.escape(option)}[,\s]", done.stdout), (option, done.stdout)


def _commands(arguments: Sequence[str]) -> list[str]:
    return list(itertools.takewhile(lambda one: not one.startswith("-"), arguments))


def test_the_services_of_compose_fit_together() -> None:
    compose = _compose()
    services = compose["services"]
    for one in services.values():
        assert set(one.get("depends_on", ())) <= services.keys()
        for volume in one["volumes"]:
            source = volume.split(":")[0]
            assert source in compose["volumes"] or (COMPOSE / source).resolve().exists(), volume
    (location,) = yaml.safe_load((COMPOSE / "workspace.yaml").read_text())["load_from"]
    server = services[location["grpc_server"]["host"]]["entrypoint"]
    assert server[server.index("-p") + 1] == str(location["grpc_server"]["port"])
    build = services["code"]["build"]
    assert (COMPOSE / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()


def test_what_compose_asks_the_environment_for_is_in_its_example() -> None:
    example = dict(
        line.split("=", 1) for line in (COMPOSE / "env.example").read_text().splitlines() if not line.startswith("#")
    )
    asked = set(re.findall(r"\$\{(\w+)", (COMPOSE / "compose.yaml").read_text()))
    assert asked == example.keys()
    settings = (Path(orchestration.__file__).parent / "dagster-postgres.yaml").read_text()
    given = _compose()["services"]["code"]["environment"].keys()
    assert set(re.findall(r"env: (\w+)", settings)) <= given
    assert {"SOURCE_SERVERS", "TARGET_SERVERS"} <= given
    # What the program says of a token that is too short must not be the first thing that a user sees.
    assert len(example["K2K_TOOL_TOKEN"]) >= 16


def test_the_pipelines_of_compose_load(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PASSWORDS.items():
        monkeypatch.setenv(name, value)
    for file in (COMPOSE / "pipelines").glob("*.yaml"):
        pipeline = load_pipeline([file])
        assert (pipeline.name, pipeline.warnings) == (file.stem, ())


# -- systemd --------------------------------------------------------------------------------------------------


def _unit(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            found.setdefault(line.split("=", 1)[0], []).append(line.split("=", 1)[1])
    return found


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_runs_a_command_that_is_there_and_is_not_restarted_in_vain(path: Path) -> None:
    unit = _unit(path)
    program, *arguments = unit["ExecStart"][0].replace("%i", "orders").split()
    assert program.startswith("/opt/k2k/bin/")
    parse(PROGRAMS[Path(program).name], arguments)
    never = set(unit["RestartPreventExitStatus"][0].split())
    assert "2" in never
    assert not never & {"1", "3"}
    if "k2k-tool" not in path.name:
        assert unit["KillMode"] == ["mixed"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not on this machine")
def test_systemd_understands_each_line_of_the_units(tmp_path: Path) -> None:
    """The programs are put in their place: that they are missing here is no fault of the unit."""
    for path in UNITS:
        text = re.sub(r"/opt/k2k/bin/\S+", shutil.which("true") or "", path.read_text())
        (tmp_path / path.name).write_text(text)
    files = [str(tmp_path / path.name) for path in UNITS]
    done = subprocess.run(
        ["systemd-analyze", "verify", *files], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


# -- Kubernetes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", _manifests("Deployment"), ids=lambda one: one["metadata"]["name"])
def test_a_deployment_runs_what_is_there_asks_for_a_health_that_is_told_and_mounts_what_it_names(
    one: dict[str, Any],
) -> None:
    pod = one["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    program = container.get("command", re.findall(r'^ENTRYPOINT \["(.+)"\]', IMAGE, re.MULTILINE))[0]
    parse(PROGRAMS[program], container["args"])
    answered = {probe: container[probe]["httpGet"]["path"] for probe in container if probe.endswith("Probe")}
    for path in answered.values():
        assert _status(path) == "200 OK", path
    assert {probe["httpGet"]["port"] for name, probe in container.items() if name.endswith("Probe")} == {
        port["name"] for port in container["ports"]
    }
    port = container["ports"][0]["containerPort"]
    assert one["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"] == str(port)
    assert port == (9091 if "mapping" in program else 9090)
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    maps = {document["metadata"]["name"]: document["data"] for document in _manifests("ConfigMap")}
    for volume in pod["volumes"]:
        assert "emptyDir" in volume or volume["configMap"]["name"] in maps
    assert f"USER {pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" in IMAGE
    assert one["spec"]["selector"]["matchLabels"] == one["spec"]["template"]["metadata"]["labels"]


def _status(path: str) -> str:
    told: list[str] = []
    tell: Any = lambda status, _: told.append(status)  # noqa: E731
    assert b"".join(application(lambda: Health(True, "", 0, {}, {}))({"PATH_INFO": path}, tell))
    return told[0]


def test_the_pipelines_of_kubernetes_load_with_the_secrets_beside_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for secret in _manifests("Secret"):
        for name, value in secret["stringData"].items():
            monkeypatch.setenv(name, value)
    for one in _manifests("ConfigMap"):
        for name, text in one["data"].items():
            (tmp_path / name).write_text(text)
            assert load_pipeline([tmp_path / name]).warnings == ()


# -- Helm, Docker ---------------------------------------------------------------------------------------------


def test_the_values_for_dagsters_chart_name_what_the_product_reads() -> None:
    values = yaml.safe_load((DEPLOY / "helm" / "dagster-values.yaml").read_text())
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    product = "\n".join(path.read_text() for path in (ROOT / "k2k_assets").rglob("*.py"))
    for variable in deployment["env"]:
        assert f'"{variable["name"]}"' in product, variable
    assert deployment["dagsterApiGrpcArgs"] == ["-m", "k2k_assets.definitions"]
    assert (
        deployment["volumeMounts"][0]["mountPath"]
        == {one["name"]: one["value"] for one in deployment["env"]}["K2K_PIPELINES"]
    )


def test_the_image_is_not_of_root_and_ends_by_the_signal_that_the_program_heeds() -> None:
    assert re.search(r"^USER 10001:10001$", IMAGE, re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["k2k"\]$', IMAGE, re.MULTILINE)  # no shell between the signal and the process
    assert re.search(r"^STOPSIGNAL SIGTERM$", IMAGE, re.MULTILINE)
    for name in re.findall(r"^COPY (?!--)(.+) \S+$", IMAGE, re.MULTILINE):
        for path in name.split():
            assert (ROOT / path).exists(), path
