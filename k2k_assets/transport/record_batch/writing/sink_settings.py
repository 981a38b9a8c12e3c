"""Settings of a sink that writes batches, from librdkafka's property names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from k2k_assets.pipeline.clients.client_properties import transaction_timeout_ms
from k2k_assets.pipeline.clients.librdkafka_names import PRODUCER
from k2k_assets.transport.record_batch.batches.packing import NO_LIMIT
from k2k_assets.transport.record_batch.batches.packing_settings import PackingSettings, packing_settings
from k2k_assets.transport.record_batch.errors import NotByBatches
from k2k_assets.transport.record_batch.wire.settings import ConnectionSettings, settings_of

_PARTITIONERS = ("murmur2_random", "random")
_UNDERSTOOD = {
    "batch.size", "compression.codec", "compression.level", "compression.type", "partitioner", "transaction.timeout.ms",
}  # fmt: skip
# What a guarantee needs is set here in any case; batches come from the source as they are, without being gathered; and
# nothing is sent again.
_WITHOUT_EFFECT = {
    "acks", "batch.num.messages", "delivery.report.only.error", "delivery.timeout.ms",
    "enable.gapless.guarantee", "enable.idempotence", "linger.ms", "message.send.max.retries", "message.timeout.ms",
    "produce.offset.report", "queue.buffering.backpressure.threshold", "queue.buffering.max.kbytes",
    "queue.buffering.max.messages", "queue.buffering.max.ms", "queuing.strategy", "request.required.acks",
    "request.timeout.ms", "retries", "sticky.partitioning.linger.ms", "transactional.id",
}  # fmt: skip
# Within the time of a step of a sink an answer may be lost, the coordinator be sought, and the question be asked again.
_ATTEMPTS = 6


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """Settings of a sink that writes batches.

    Attributes:
        connection: How brokers are connected to.
        packing: How batches are packed that cannot pass, but for the size that the target topics take.
        hashes_keys: Whether the key chooses the partition where the pipeline leaves that to the producer.
        transaction_ms: After so many milliseconds the broker aborts a transaction.
    """

    connection: ConnectionSettings
    packing: PackingSettings
    hashes_keys: bool
    transaction_ms: int


def sink_settings_of(properties: Mapping[str, object], timeout: float) -> SinkSettings:
    """The settings.

    Args:
        properties: Producer settings, librdkafka names.
        timeout: Seconds that any step may take.

    Raises:
        NotByBatches: librdkafka has to write, with all reasons.
    """
    given = {name: str(value) for name, value in properties.items()}
    reasons = [
        f"the property {name} is not understood by it"
        for name in sorted(given)
        if name in PRODUCER and name not in _UNDERSTOOD and name not in _WITHOUT_EFFECT
    ]
    partitioner = given.get("partitioner", _PARTITIONERS[0])
    if partitioner not in _PARTITIONERS:
        reasons.append(f"partitioner is {partitioner}")
    packing, connection = None, None
    try:
        packing = packing_settings(given, NO_LIMIT)
    except NotByBatches as found:
        reasons += found.reasons
    try:
        connection = settings_of({name: value for name, value in given.items() if name not in PRODUCER})
    except NotByBatches as found:
        reasons += found.reasons
    if reasons or packing is None or connection is None:
        raise NotByBatches(reasons)
    patience = timeout / _ATTEMPTS
    return SinkSettings(
        replace(
            connection,
            answer_seconds=min(connection.answer_seconds, patience),
            setup_seconds=min(connection.setup_seconds, patience),
        ),
        packing,
        partitioner == "murmur2_random",
        transaction_timeout_ms(given),
    )
