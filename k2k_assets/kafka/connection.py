"""The connection to one Kafka cluster through an admin client: waits for brokers and answers, within deadlines."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Literal, Self, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from k2k_assets.core.deadline import Deadline
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.kafka import clients
from k2k_assets.kafka.answers import UNSETTLED, Unsettled, in_thread

Role = Literal["source", "target"]
T = TypeVar("T")

# The default time-out of each call.
ANSWER_SECONDS = 15.0
POLL_SECONDS = 0.2
"""How often to look whether an answer has come, and how long to wait before the next try."""
# Longest wait for one answer while the cluster lists no brokers. A client that was told of no broker forgets those that
# it knew, and may never find one again (librdkafka 2.16).
_AGAIN_SECONDS = 2.0
_NOBODY = "none of its brokers takes part in it"
# So many refused logins end a call. One or two are normal while the brokers have not heard of a new user yet.
_REFUSALS = 5


class Connection:
    """An admin client of a cluster, which is made anew when it has lost the brokers.

    Args:
        role: Names the cluster in errors.
        properties: Client settings, librdkafka names.
        timeout: Seconds that any call may take; None: `ANSWER_SECONDS`.
    """

    def __init__(self, role: Role, properties: Mapping[str, object], timeout: float | None = None) -> None:
        self.role = role
        self.timeout = ANSWER_SECONDS if timeout is None else timeout
        self._properties = dict(properties)
        self._last_error: str | None = None
        self._admin: AdminClient | None = None
        self._old: list[AdminClient] = []
        self._has_answered = False
        self._making = threading.Lock()
        self._knows_leaders = False
        self._refusals = 0

    @property
    def servers(self) -> str:
        """The bootstrap addresses."""
        return str(self._properties.get("bootstrap.servers", "?"))

    @property
    def admin(self) -> AdminClient:
        """The admin client, made at its first use."""
        with self._making:  # if two threads made one each, the one that is dropped would die with its requests
            if self._admin is None:
                self._admin = clients.admin(self._properties, {"error_cb": self._remember})
            return self._admin

    def close(self) -> None:
        """Closes the client."""
        self._admin = None
        self._old.clear()
        self._knows_leaders = False

    def _put_aside(self) -> None:
        """Lets the next call make a new client; the old one lives on a while, for requests that are under way."""
        with self._making:
            if self._admin is not None:
                self._old = [*self._old[-1:], self._admin]
            self._admin = None
        self._knows_leaders = False

    def renew_if_disturbed(self) -> None:
        """Drops a client that has lost a broker: it may never find the controller or a coordinator again."""
        if self._admin is not None:
            self._admin.poll(0)
        if self._last_error is not None:
            self.close()
            self._last_error = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        return f"{self.role} cluster ({self.servers})"

    def cluster_id(self) -> str:
        return str(self._metadata().cluster_id)

    def topics(self) -> dict[str, int]:
        """All topics but Kafka's internal ones, with their partition counts."""
        return {
            name: len(topic.partitions)
            for name, topic in self._metadata().topics.items()
            if topic.error is None and name not in ("__consumer_offsets", "__transaction_state", "__share_group_state")
        }

    def brokers(self) -> list[int]:
        """The ids of the brokers that are in the cluster now; at least one."""
        return sorted(self._metadata().brokers)

    def _metadata(self) -> ClusterMetadata:
        """Fetches brokers and topics; waits while the answer lists no broker, as for a moment after one was frozen.

        It does not use `describe_cluster`: when no broker is listed, that answer aborts the process (librdkafka 2.16:
        "Assertion `rko_result' failed").

        Raises:
            ClusterUnreachable: No answer in time, or none that lists a broker.
        """
        deadline, nobody = Deadline(self.timeout), False
        while True:
            try:
                asked = in_thread(partial(self.admin.list_topics, timeout=self._patience(deadline, nobody)))
                found = self._result(asked)
                if found.brokers:
                    self._has_answered = self._knows_leaders = True
                    return found
                nobody = True
            except KafkaException as raised:
                error = clients.error_of(raised)
                if error.code() == KafkaError._PARTIAL:
                    nobody = True
                else:
                    said = self._translated(raised)
                    self._put_aside()
                    if not clients.is_unreachable(error) or not (nobody or self._has_answered):
                        raise said from None
            except TimeoutError:
                self._put_aside()
                raise self._silent() from None
            if deadline.expired():
                break
            time.sleep(min(POLL_SECONDS, deadline.remaining()))
        raise clients.unreachable(self.role, self._properties, _NOBODY) if nobody else self._silent()

    def _patience(self, deadline: Deadline, nobody: bool) -> float:
        """Longest time for one request, in seconds: all that is left if the cluster has never answered."""
        longest = _AGAIN_SECONDS if nobody else self.timeout / 3 if self._has_answered else self.timeout
        return min(longest, deadline.remaining())

    def answer(self, future: Future[Any], instead: Mapping[int, Any]) -> Any:
        """Waits for an answer of the admin client.

        Args:
            future: The future that the admin client returned.
            instead: Values to return instead of raising, by error code.

        Raises:
            ClusterUnreachable: No answer in time.
            NotAllowed: The principal lacks a right.
            Refused: Another error.
        """
        try:
            return self._result(future)
        except KafkaException as error:
            code = clients.error_of(error).code()
            if code in instead:
                return instead[code]
            if code in UNSETTLED:
                raise Unsettled(clients.error_of(error).str()) from None
            raise self._translated(error) from None
        except TimeoutError:
            raise self._silent() from None

    def _result(self, future: Future[T]) -> T:
        """Waits for an answer, but gives up early when the cluster refuses the login again and again."""
        self.admin.poll(0)
        self._refusals = 0
        deadline = Deadline(self.timeout + 5)
        while self._refusals < _REFUSALS:
            with suppress(TimeoutError):
                return future.result(timeout=min(POLL_SECONDS, deadline.remaining()))
            if deadline.expired():
                break
            self.admin.poll(0)
        raise TimeoutError

    def _translated(self, exception: KafkaException) -> Exception:
        error = clients.error_of(exception)
        if clients.is_unreachable(error):
            self.admin.poll(0)
            return clients.unreachable(self.role, self._properties, self._last_error or error.str())
        return clients.refused(f"the {self} refused", error)

    def _silent(self) -> ClusterUnreachable:
        return clients.unreachable(self.role, self._properties, self._last_error or "no answer in time")

    def _remember(self, error: KafkaError) -> None:
        self._refusals += clients.is_refused_login(error)
        # "All brokers are down" comes last, and says less than the errors of the single brokers.
        if self._last_error is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._last_error = error.str()
