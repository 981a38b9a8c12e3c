"""Two real Kafka clusters on this machine, downloaded once and stopped with the process that started them."""

from k2k_assets.sandbox.broker import Broker
from k2k_assets.sandbox.kafka_sandbox import KafkaSandbox

__all__ = ["Broker", "KafkaSandbox"]
