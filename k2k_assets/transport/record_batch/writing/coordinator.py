"""The transaction coordinator of one transactional id: opens, joins and ends its transactions.

Where each transaction has an epoch of its own (KIP-890), a commit whose answer is lost is asked about again:

| answer | means |
| --- | --- |
| none | it is committed: only we hold the epoch before the next one |
| concurrent transactions | it is still being ended: asked again |
| invalid transaction state | it is not committed: the broker had aborted it, because it was too slow |
| fenced | somebody else has the id, and only the target tells what became of it |

Where transactions share an epoch, a second copy of the request could end half of the next one: it is sent once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from functools import partial

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.producer_identity import ProducerIdentity
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.record_batch.errors import MOST_REFUSALS, ConnectionLost, LoginRefused, error_text
from k2k_assets.transport.record_batch.wire import transaction_messages as messages
from k2k_assets.transport.record_batch.wire.connection import BrokerConnection
from k2k_assets.transport.record_batch.wire.control_messages import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
)
from k2k_assets.transport.record_batch.wire.settings import Address
from k2k_assets.transport.record_batch.wire.tasks import Task, pause
from k2k_assets.transport.record_batch.wire.transaction_messages import EPOCH_EACH
from k2k_assets.transport.record_batch.writing.broker_requirements import ensure_verified
from k2k_assets.transport.record_batch.writing.coordinator_search import sought_coordinator
from k2k_assets.transport.record_batch.writing.sink_settings import SinkSettings
from k2k_assets.transport.record_batch.writing.write_errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_ELSEWHERE,
    error_of,
)

_PAUSE = 0.05
# The first pause before a question is repeated; what takes long is asked about less and less often.
_UNTIL_ENDED = 0.005
_UNTIL_JOINED = 0.0005
_SHARE_OF_TIME = 0.25
_LONGEST_PAUSE = 0.1
_INVALID_STATE = 48
_OPERATION_NOT_ATTEMPTED = 55  # because of another partition of the request
_EPOCHS_EACH = 2


class TransactionCoordinator:
    """The coordinator of a transactional id.

    Args:
        settings: How brokers are connected to.
        transactional_id: The id.
        brokers: Tells the brokers that are known by now, to ask who coordinates it.

    Attributes:
        has_epoch_each: Whether each transaction has an epoch of its own; known once a producer id is.
    """

    def __init__(self, settings: SinkSettings, transactional_id: str, brokers: Callable[[], Iterable[Address]]) -> None:
        self.has_epoch_each = False
        self._settings, self._brokers = settings, brokers
        self._id = transactional_id
        self._connection: BrokerConnection | None = None

    def open(self, deadline: Deadline, step: str) -> Task[ProducerIdentity]:
        """Gets a producer id: this fences who has one under the transactional id, and aborts that one's transaction.

        It returns only when that one's transaction is ended. The request may be repeated: no transaction is ours yet.

        Raises:
            ConnectionLost: No broker answers in time.
            NotAllowed: The principal may not use the id.
            TimeoutTooLong: The transaction time-out is longer than the brokers allow.
            Restart: The transaction before is not ended in time, or something else is wrong.
        """
        refusals, began = 0, time.monotonic()
        while True:
            try:
                connection = yield from self._connected(deadline)
                version = connection.version_of(INIT_PRODUCER_ID, *messages.INIT_PRODUCER_ID_VERSIONS)
                body = messages.init_producer_id(self._id, self._settings.transaction_ms)
                error, producer = yield from connection.ask(
                    INIT_PRODUCER_ID, version, body, messages.read_init_producer_id
                )
            except ConnectionLost as lost:
                self.close()
                refusals += isinstance(lost, LoginRefused)
                if deadline.expired() or refusals >= MOST_REFUSALS:
                    raise
                yield from pause(_PAUSE)
                continue
            if not error:
                self._learn_versions(connection)
                return producer
            yield from self._wait_out(error, step, deadline, _pause(_UNTIL_ENDED, began))

    def join(
        self, producer: ProducerIdentity, partitions: Collection[TopicPartition], deadline: Deadline
    ) -> Task[bool]:
        """Adds partitions to the transaction before their first records.

        Where each transaction has an epoch of its own a late copy of the request adds nothing to another one. So a lost
        answer is asked for again.

        Returns:
            Whether they had to wait, because the transaction before was still being ended.

        Raises:
            ConnectionLost: The answer is lost.
            Fenced: Somebody else has the id.
            Restart: It does not work.
        """
        body = messages.add_partitions(self._id, producer, partitions)
        began, had_to_wait = time.monotonic(), False
        while True:
            connection = yield from self._reached(deadline)
            try:
                found = yield from connection.ask(
                    ADD_PARTITIONS_TO_TXN, messages.ADD_PARTITIONS_VERSION, body, messages.read_add_partitions
                )
            except ConnectionLost:
                self.close()
                if not self.has_epoch_each or deadline.expired():
                    raise
                yield from pause(_PAUSE)
                continue
            if found.keys() != set(partitions):
                raise Restart(f"{connection}: an answer about other partitions than were added to the transaction")
            errors = {tp: error for tp, error in found.items() if error and error != _OPERATION_NOT_ATTEMPTED}
            if not errors and not any(found.values()):
                return had_to_wait
            had_to_wait = had_to_wait or CONCURRENT_TRANSACTIONS in errors.values()
            tp, error = next(iter(errors.items()), (None, _OPERATION_NOT_ATTEMPTED))
            step = f"adding {tp} to the transaction"
            seconds = _pause(_UNTIL_JOINED, began)
            yield from self._wait_out(error, step, deadline, seconds, None if tp is None else tp.topic)

    def commit(self, producer: ProducerIdentity, deadline: Deadline) -> Task[ProducerIdentity]:
        """Commits the transaction.

        Returns:
            Under which identity the next transaction is.

        Raises:
            Fenced: Somebody else has the id.
            LoginRefused: The credentials are refused; it cannot be known whether it is committed.
            Restart: It is not committed, or that cannot be known.
        """
        if not self.has_epoch_each:
            return (yield from self._end_once(producer, deadline, commits=True))
        doubt, refusals, began = "", 0, time.monotonic()
        while True:
            try:
                connection = yield from self._connected(deadline)
                body = messages.end_txn(self._id, producer, commits=True)
                error, following = yield from connection.ask(
                    END_TXN, EPOCH_EACH, body, partial(messages.read_end_txn, EPOCH_EACH)
                )
            except ConnectionLost as lost:
                self.close()
                doubt = str(lost)
                refusals += isinstance(lost, LoginRefused)
                if refusals >= MOST_REFUSALS:
                    raise
                if deadline.expired():
                    raise Restart(f"committing: no answer in time, so that the outcome is not known: {doubt}") from None
                yield from pause(_PAUSE)
                continue
            if not error and following is not None:
                return _next(producer, following)
            if error == _INVALID_STATE:
                raise Restart(f"committing: the broker has aborted the transaction: {error_text(error)}")
            yield from self._wait_out(error, "committing", deadline, _pause(_UNTIL_ENDED, began))

    def abort(self, producer: ProducerIdentity, deadline: Deadline) -> Task[None]:
        """Aborts the transaction if that works at once; asks once."""
        yield from self._end_once(producer, deadline, commits=False)

    def _end_once(self, producer: ProducerIdentity, deadline: Deadline, commits: bool) -> Task[ProducerIdentity]:
        step = "committing" if commits else "aborting"
        try:
            connection = yield from self._reached(deadline)
            version = EPOCH_EACH
            if not self.has_epoch_each:
                version = connection.version_of(END_TXN, *messages.END_TXN_VERSIONS)
            # It is asked once, so that nothing is gained by giving up early.
            longer = max(0.0, deadline.remaining() - self._settings.connection.answer_seconds)
            body = messages.end_txn(self._id, producer, commits)
            error, following = yield from connection.ask(
                END_TXN, version, body, partial(messages.read_end_txn, version), held_back=longer
            )
        except ConnectionLost as lost:
            raise Restart(f"{step}: no answer, so that the outcome is not known: {lost}") from None
        if error:
            raise error_of(error, step)
        return following or producer

    def close(self) -> None:
        """Closes the connection; the next request opens one."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _learn_versions(self, connection: BrokerConnection) -> None:
        spoken = connection.spoken
        ends = spoken.by_api.get(END_TXN)
        self.has_epoch_each = spoken.of_transactions >= _EPOCHS_EACH and ends is not None and ends.newest >= EPOCH_EACH
        ensure_verified(connection)

    def _wait_out(
        self, error: int, step: str, deadline: Deadline, seconds: float, topic: str | None = None
    ) -> Task[None]:
        """Waits before a request is repeated that the coordinator has answered by an error.

        Raises:
            Restart: Waiting does not help, or was in vain.
        """
        if error in COORDINATOR_ELSEWHERE:
            self.close()
            seconds = _PAUSE
        elif error not in (CONCURRENT_TRANSACTIONS, _OPERATION_NOT_ATTEMPTED):
            raise error_of(error, step, topic)
        if deadline.expired():
            raise Restart(f"{step}: {error_text(error)} until the time was over")
        yield from pause(seconds)

    def _reached(self, deadline: Deadline) -> Task[BrokerConnection]:
        """As `_connected`, tried until the time is over: nothing is sent before."""
        while True:
            try:
                return (yield from self._connected(deadline))
            except LoginRefused:
                raise
            except ConnectionLost:
                if deadline.expired():
                    raise
            yield from pause(_PAUSE)

    def _connected(self, deadline: Deadline) -> Task[BrokerConnection]:
        """A connection to the coordinator.

        Raises:
            ConnectionLost: It cannot be reached.
        """
        if self._connection is not None and not self._connection.is_open():
            self.close()
        if self._connection is None:
            address = yield from sought_coordinator(self._id, self._brokers, self._settings.connection, deadline)
            connection = BrokerConnection(address, self._settings.connection)
            yield from connection.open()
            self._connection = connection
        return self._connection


def _pause(first: float, began: float) -> float:
    """The pause before a question is repeated that was asked first at some time."""
    return min(_LONGEST_PAUSE, max(first, (time.monotonic() - began) * _SHARE_OF_TIME))


def _next(producer: ProducerIdentity, following: ProducerIdentity) -> ProducerIdentity:
    """The identity after a commit, checked: one epoch on, or a new id when the epochs are used up."""
    is_next = following == (producer.producer_id, producer.epoch + 1)
    is_new = following.producer_id not in (producer.producer_id, -1) and following.epoch == 0
    if not (is_next or is_new):
        raise Restart(f"committing {tuple(producer)}: the broker goes on as {tuple(following)}")
    return following
