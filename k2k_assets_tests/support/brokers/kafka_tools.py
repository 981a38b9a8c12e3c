"""Kafka's own programs for administrators, such as `kafka-acls.sh`."""

from __future__ import annotations

from pathlib import Path

from k2k_assets.java.find import find_java
from k2k_assets.sandbox.jars import KAFKA, fetch_jars, read_manifest

_TOOLS = Path(__file__).with_name("kafka-tools-4.3.1.jars")


def tool(name: str) -> list[str]:
    """The beginning of a command.

    Args:
        name: Of a class in `org.apache.kafka.tools`.
    """
    assert {jar.version for jar in read_manifest(_TOOLS)} <= {jar.version for jar in read_manifest(KAFKA)}
    java = [str(find_java()), "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return [*java, "-cp", f"{fetch_jars(_TOOLS)}/*:{fetch_jars()}/*", f"org.apache.kafka.tools.{name}"]
