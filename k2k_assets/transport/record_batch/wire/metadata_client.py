"""Asks any broker of a cluster who leads which partition."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator

from k2k_assets.core.deadline import Deadline
from k2k_assets.transport.record_batch.errors import ConnectionLost, NotReached, more_telling
from k2k_assets.transport.record_batch.wire import control_messages as messages
from k2k_assets.transport.record_batch.wire.connection import BrokerConnection
from k2k_assets.transport.record_batch.wire.control_messages import ASKED_VERSIONS, METADATA, Metadata
from k2k_assets.transport.record_batch.wire.settings import Address, ConnectionSettings
from k2k_assets.transport.record_batch.wire.tasks import Task

# How long one of several brokers is waited for before the others are asked. It then gets a second chance.
_BRIEFLY = 3.0
# Into how many shares the time that is left is divided at most: over a distance a new connection takes a second, and of
# dozens of brokers none would get it.
_SHARES = 4
_FOREVER = float("inf")


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

    def ask(self, topics: Iterable[str], deadline: Deadline | None = None) -> Task[Metadata]:
        """Asks about topics: one broker after the other, and once more those that were silent.

        Args:
            topics: Their names.
            deadline: When it is given up, after one attempt at least; None: not before all were asked.

        Raises:
            ConnectionLost: None of them answers; the trouble with the last one.
            NotByBatches: One speaks none of the versions that are spoken here.
        """
        until, wanted = deadline or Deadline(_FOREVER), messages.metadata(topics)
        trouble: ConnectionLost | None = None
        silent: list[Address] = []
        for address, seconds in self._attempts(silent, until):
            if trouble is not None and until.expired():
                break
            try:
                return (yield from self._answer_of(address, wanted, seconds))
            except ConnectionLost as lost:
                trouble = more_telling(trouble, lost)
                self.close()
                if isinstance(lost, NotReached):
                    silent.append(address)
        raise trouble or ConnectionLost("no broker is known")

    def _attempts(self, silent: Collection[Address], until: Deadline) -> Iterator[tuple[Address, float]]:
        """Whom to ask, and for how many seconds: one of several must not keep the others waiting.

        Args:
            silent: Those that were in vain.
            until: When it is given up.
        """
        first = self.addresses()
        if len(first) == 1:
            yield first[0], until.remaining()
            return
        for count, address in enumerate(first):
            yield address, min(_BRIEFLY, until.remaining() / min(len(first) - count, _SHARES))
        for address in list(silent):
            yield address, until.remaining()

    def _answer_of(self, address: Address, wanted: bytes, seconds: float) -> Task[Metadata]:
        connection = yield from self._connected(address, seconds)
        found = yield from connection.ask(
            METADATA, ASKED_VERSIONS[METADATA], wanted, messages.read_metadata, within=seconds
        )
        # For a moment after its start a broker may know of none, not even of itself.
        self.brokers = found.brokers or self.brokers
        return found

    def close(self) -> None:
        """Closes the connection; the next question opens one."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def addresses(self) -> list[Address]:
        """All that are known: the one that was asked last, then the others, then those of the settings.

        Those that could not be reached the last time come behind all others.
        """
        known = list(self.brokers.values())
        random.shuffle(known)
        open_one = [self._connection.address] if self._connection is not None else []
        found = dict.fromkeys([*open_one, *known, *self._settings.servers])
        return sorted(found, key=self._settings.silent.__contains__)

    def _connected(self, address: Address, seconds: float) -> Task[BrokerConnection]:
        if self._connection is not None and self._connection.address == address:
            return self._connection
        self.close()
        connection = BrokerConnection(address, self._settings)
        yield from connection.open(seconds)
        self._connection = connection
        return connection
