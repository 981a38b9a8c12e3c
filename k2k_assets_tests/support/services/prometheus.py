"""A real Prometheus for tests, and its promtool: Debian's package `prometheus`."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2k_assets.core.deadline import wait_until
from k2k_assets.sandbox.broker_settings import free_ports
from k2k_assets_tests.support.copies.processes import ensure_running

_SECONDS = 60.0


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`; skips the test where it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} on this machine (on Debian: apt-get install prometheus)")
    return found


class Prometheus:
    """A running Prometheus.

    Args:
        address: Where it answers.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def query(self, query: str) -> dict[frozenset[tuple[str, str]], float]:
        """The values of a query now, by labels."""
        found = self._answer("query", query=query)["result"]
        return {frozenset(each["metric"].items()): float(each["value"][1]) for each in found}

    def firing(self) -> dict[str, list[Mapping[str, str]]]:
        """The alerts that fire, each with the labels of all that do."""
        found: dict[str, list[Mapping[str, str]]] = {}
        for alert in self._answer("alerts")["alerts"]:
            if alert["state"] == "firing":
                found.setdefault(alert["labels"]["alertname"], []).append(alert["labels"])
        return found

    def _answer(self, path: str, **parameters: str) -> Any:
        asked = f"{self._address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return json.load(answer)["data"]


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, str], rules: Mapping[str, Any]) -> Iterator[Prometheus]:
    """Scrapes each second, and evaluates rules as often.

    Args:
        folder: For its files.
        targets: Addresses to scrape, host and port, by name of the job.
        rules: What stands in the file of rules.
    """
    found = program("prometheus")
    (folder / "rules.yml").write_text(yaml.safe_dump(rules))
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yml"],
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": [address]}]} for job, address in targets.items()
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    (port,) = free_ports(1)
    command = [
        *(found, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"),
        *(f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"),
    ]
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:

            def is_ready() -> bool:
                ensure_running(process)
                try:
                    with urllib.request.urlopen(f"{address}/-/ready", timeout=5) as answer:
                        return bool(answer.status == 200)
                except OSError:
                    return False

            wait_until(is_ready, _SECONDS, "Prometheus")
            yield Prometheus(address)
        finally:
            process.kill()
