"""Asks any broker of a cluster who leads which partition."""

from __future__ import annotations

import random
from collections.abc import Iterable

from k2k_assets.transport.record_batch.errors import ConnectionLost
from k2k_assets.transport.record_batch.wire import control_messages as messages
from k2k_assets.transport.record_batch.wire.connection import BrokerConnection
from k2k_assets.transport.record_batch.wire.control_messages import ASKED_VERSIONS, METADATA, Metadata
from k2k_assets.transport.record_batch.wire.settings import Address, ConnectionSettings
from k2k_assets.transport.record_batch.wire.tasks import Task


class MetadataClient:
    """A cluster, as its brokers tell of it.

    Args:
        settings: How brokers are connected to.

    Attributes:
        brokers: Host and port of each known broker, by node id.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self.brokers: dict[int, Address] = {}
        self._settings = settings
        self._connection: BrokerConnection | None = None

    def ask(self, topics: Iterable[str]) -> Task[Metadata]:
        """Asks about topics: one broker after the other, each once.

        Raises:
            ConnectionLost: None of them answers; the trouble with the last one.
            NotByBatches: One speaks none of the versions that are spoken here.
        """
        wanted = messages.metadata(topics)
        trouble: ConnectionLost | None = None
        for address in self.addresses():
            try:
                connection = yield from self._connected(address)
                found = yield from connection.ask(METADATA, ASKED_VERSIONS[METADATA], wanted, messages.read_metadata)
            except ConnectionLost as lost:
                trouble = lost
                self.close()
                continue
            # For a moment after its start a broker may know of none, not even of itself.
            self.brokers = found.brokers or self.brokers
            return found
        raise trouble or ConnectionLost("no broker is known")

    def close(self) -> None:
        """Closes the connection; the next question opens one."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def addresses(self) -> list[Address]:
        """Of all brokers that are known, the one that was asked last first, and those of the settings last."""
        known = list(self.brokers.values())
        random.shuffle(known)
        open_one = [self._connection.address] if self._connection is not None else []
        return list(dict.fromkeys([*open_one, *known, *self._settings.servers]))

    def _connected(self, address: Address) -> Task[BrokerConnection]:
        if self._connection is not None and self._connection.address == address:
            return self._connection
        self.close()
        connection = BrokerConnection(address, self._settings)
        yield from connection.open()
        self._connection = connection
        return connection
