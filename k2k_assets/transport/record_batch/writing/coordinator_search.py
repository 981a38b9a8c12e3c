"""Asks brokers which of them coordinates a transactional id."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from k2k_assets.core.deadline import Deadline
from k2k_assets.transport.record_batch.errors import ConnectionLost, LoginRefused, more_telling
from k2k_assets.transport.record_batch.wire import transaction_messages as messages
from k2k_assets.transport.record_batch.wire.connection import BrokerConnection
from k2k_assets.transport.record_batch.wire.control_messages import FIND_COORDINATOR
from k2k_assets.transport.record_batch.wire.settings import Address, ConnectionSettings
from k2k_assets.transport.record_batch.wire.tasks import Task, pause
from k2k_assets.transport.record_batch.writing.write_errors import COORDINATOR_ELSEWHERE, error_of

_PAUSE = 0.05


def sought_coordinator(
    transactional_id: str, brokers: Callable[[], Iterable[Address]], settings: ConnectionSettings, deadline: Deadline
) -> Task[Address]:
    """Asks the brokers, one after the other, until one knows the coordinator.

    Args:
        transactional_id: The id.
        brokers: Tells those that are known by now.
        settings: How they are connected to.
        deadline: When it is given up.

    Raises:
        ConnectionLost: None knows it in time; the trouble with the last one.
        NotAllowed: The principal may not use the id.
        Restart: Something else is wrong.
    """
    trouble: ConnectionLost | None = None
    while True:
        for address in brokers():
            connection = BrokerConnection(address, settings)
            try:
                yield from connection.open(deadline.remaining())
                version = messages.FIND_COORDINATOR_VERSION
                connection.version_of(FIND_COORDINATOR, version, version)
                body = messages.find_coordinator(transactional_id)
                found = yield from connection.ask(
                    FIND_COORDINATOR, version, body, messages.read_find_coordinator, within=deadline.remaining()
                )
            except ConnectionLost as lost:
                trouble = more_telling(trouble, lost)
                if deadline.expired():
                    break
                continue
            finally:
                connection.close()
            if found is None or found.error in COORDINATOR_ELSEWHERE:
                trouble = ConnectionLost(f"{connection}: the transaction coordinator is not available")
                continue
            if found.error:
                step = f"finding the coordinator of the transactional id {transactional_id}"
                raise error_of(found.error, step, words=found.words)
            return found.address
        if deadline.expired() or isinstance(trouble, LoginRefused):
            raise trouble or ConnectionLost("no broker is known")
        yield from pause(_PAUSE)
