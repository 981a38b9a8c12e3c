"""What a broker of the target has to speak."""

from __future__ import annotations

from k2k_assets.transport.record_batch.errors import NotByBatches
from k2k_assets.transport.record_batch.wire import produce_messages
from k2k_assets.transport.record_batch.wire import transaction_messages as messages
from k2k_assets.transport.record_batch.wire.connection import BrokerConnection
from k2k_assets.transport.record_batch.wire.control_messages import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    PRODUCE,
)

# Brokers that speak this among each other make sure that records belong to an open transaction (KIP-890, first part).
_VERIFIED = 4
_NEEDED = {
    PRODUCE: (produce_messages.OLDEST, produce_messages.NEWEST),
    FIND_COORDINATOR: (messages.FIND_COORDINATOR_VERSION,) * 2,
    INIT_PRODUCER_ID: messages.INIT_PRODUCER_ID_VERSIONS,
    END_TXN: (messages.END_TXN_VERSIONS[0], messages.EPOCH_EACH),
}


def ensure_verified(connection: BrokerConnection) -> None:
    """Makes sure that a broker verifies that records belong to an open transaction.

    Raises:
        NotByBatches: It does not.
    """
    version = messages.ADD_PARTITIONS_VERSION
    connection.version_of(ADD_PARTITIONS_TO_TXN, version, version)
    if connection.spoken.by_api[ADD_PARTITIONS_TO_TXN].newest < _VERIFIED:
        raise NotByBatches([f"the broker {connection} does not verify transactions (KIP-890)"])


def ensure_writable(connection: BrokerConnection) -> None:
    """Makes sure that transactions can be written to a broker.

    Raises:
        NotByBatches: They cannot.
    """
    for api, (oldest, newest) in _NEEDED.items():
        connection.version_of(api, oldest, newest)
    ensure_verified(connection)
