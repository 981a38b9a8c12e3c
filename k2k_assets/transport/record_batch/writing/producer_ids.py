"""Asks for producer ids outside transactions. Any broker gives them: each is given once, and begins with epoch 0."""

from __future__ import annotations

from collections.abc import Iterable

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.record_batch.errors import ConnectionLost, LoginRefused, ProtocolError, error_text
from k2k_assets.transport.record_batch.wire import transaction_messages as messages
from k2k_assets.transport.record_batch.wire.connection import BrokerConnection
from k2k_assets.transport.record_batch.wire.control_messages import INIT_PRODUCER_ID
from k2k_assets.transport.record_batch.wire.request_pipeline import BrokerRequest, RequestPipeline
from k2k_assets.transport.record_batch.wire.settings import Address, ConnectionSettings
from k2k_assets.transport.record_batch.wire.tasks import Loop, Task, pause
from k2k_assets.transport.record_batch.writing.write_errors import COORDINATOR_ELSEWHERE, error_of

_PAUSE = 0.1
# The broker has no more, and has not got new ones from the controller in time.
_NOT_NOW = COORDINATOR_ELSEWHERE | {7}
_STEP = "asking for a producer id"


class ProducerIds:
    """Asks for so many ids at once.

    Args:
        count: How many.

    Attributes:
        given: Those that were given so far.
        not_before: When the next request may be sent: at any time.
    """

    def __init__(self, count: int) -> None:
        self.given: list[ProducerIdentity] = []
        self.not_before = 0.0
        self._count, self._asked = count, 0
        self._not_now = self._version = self._last_error = 0

    def ask(
        self, brokers: Iterable[Address], settings: ConnectionSettings, deadline: Deadline
    ) -> list[ProducerIdentity]:
        """All of them.

        Args:
            brokers: To be asked, one after the other.
            settings: How they are connected to.
            deadline: When it is given up.

        Raises:
            ConnectionLost: No broker answers in time.
            NotAllowed: The principal may not write idempotently.
            Restart: No broker gives any in time.
        """
        trouble: Exception = Restart(f"{_STEP}: no broker is known")
        while len(self.given) < self._count:
            for address in brokers:
                connection, loop = BrokerConnection(address, settings), Loop()
                self._asked, self._not_now = len(self.given), 0
                try:
                    loop.start(self._on(connection))
                    loop.run(max(0.0, min(settings.answer_seconds, deadline.remaining())), self._is_answered)
                    # The last attempt may have no time: what was wrong with the one before says more.
                    if not (deadline.expired() and isinstance(trouble, ConnectionLost)):
                        trouble = self._trouble(connection)
                except ConnectionLost as lost:
                    trouble = lost
                finally:
                    loop.stop()
                if self._is_answered() and not self._not_now:
                    break
            else:
                if deadline.expired() or isinstance(trouble, LoginRefused):
                    raise trouble
                Loop().complete(pause(_PAUSE))
        return self.given

    def _on(self, connection: BrokerConnection) -> Task[None]:
        try:
            yield from connection.open()
            self._version = connection.version_of(INIT_PRODUCER_ID, *messages.INIT_PRODUCER_ID_VERSIONS)
            yield from RequestPipeline(connection, self).run()
        finally:
            connection.close()

    def _is_answered(self) -> bool:
        return len(self.given) + self._not_now == self._count

    def _trouble(self, connection: BrokerConnection) -> Exception:
        if self._not_now:
            return Restart(f"{_STEP}: {connection} gives none: {error_text(self._last_error)}")
        return ConnectionLost(f"{connection}: no answer in time")

    def has_request(self) -> bool:
        return self._asked < self._count

    def next_request(self) -> BrokerRequest:
        self._asked += 1
        body = messages.init_producer_id(None, 0)
        return BrokerRequest(INIT_PRODUCER_ID, self._version, [body], len(body), self._take)

    def _take(self, answer: memoryview) -> None:
        error, identity = messages.read_init_producer_id(answer)
        if not error:
            if identity.producer_id < 0 or identity in self.given:
                raise ProtocolError(f"the producer id {identity.producer_id} was given, which is none or in use")
            self.given.append(identity)
        elif error in _NOT_NOW:
            self._not_now += 1
            self._last_error = error
        else:
            raise error_of(error, _STEP)
