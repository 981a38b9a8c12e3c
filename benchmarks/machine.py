"""What the figures were measured on, without names that identify the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

import confluent_kafka
import psutil

from k2k_assets.java.find import find_java

_ROOT = Path(__file__).resolve().parent.parent


def summary() -> list[str]:
    """Lines that tell of processor, memory, versions and commit."""
    memory = psutil.virtual_memory().total / 2**30
    versions = ", ".join(f"{name} {version(name)}" for name in ("confluent-kafka", "pyspark", "dagster"))
    return [
        f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.release()}; "
        "both brokers on it too, over loopback without TLS",
        f"Python {platform.python_version()}, {versions}, librdkafka {confluent_kafka.libversion()[0]}, "
        f"{_java()}, Kafka and MirrorMaker 2 4.3.1",
        f"Commit {_commit()}; load of the machine before the start: {os.getloadavg()[0]:.1f}",
    ]


def listed() -> str:
    """The lines of `summary` as a Markdown list."""
    return "\n".join(f"- {line}" for line in summary())


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _java() -> str:
    said = subprocess.run([str(find_java()), "-version"], capture_output=True, text=True, timeout=30, check=False)
    return (said.stderr + said.stdout).partition("\n")[0].replace('"', "")


def _commit() -> str:
    command = ["git", "-C", str(_ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    return said.stdout.strip() or "unknown"
