"""Two real Kafka clusters on this machine, downloaded once and stopped with the process that started them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from k2k_assets.sandbox.broker import Broker
    from k2k_assets.sandbox.kafka_sandbox import KafkaSandbox

__all__ = ["Broker", "KafkaSandbox"]


def __getattr__(name: str) -> Any:
    """Imports the two when somebody wants them: `sandbox.java` is Spark's matter too, and they bring trustme."""
    if name == "Broker":
        from k2k_assets.sandbox.broker import Broker

        return Broker
    if name == "KafkaSandbox":
        from k2k_assets.sandbox.kafka_sandbox import KafkaSandbox

        return KafkaSandbox
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
