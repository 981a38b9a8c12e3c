"""The model behind a real socket, with a script of faults: it drops, delays, refuses or keeps back chosen requests."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from k2k_assets_tests.support.brokers.kafka_frames import Api, Request, read_frame
from k2k_assets_tests.support.brokers.listening_broker import HOST, ListeningBroker
from k2k_assets_tests.support.model_broker.cluster import ModelCluster
from k2k_assets_tests.support.model_broker.logins import SPOKEN, ModelLogins, ModelSession
from k2k_assets_tests.support.model_broker.wire import VERSIONS, ModelWire

_HEADER = 14
"""Bytes of a request before the client's name, its length included."""


class Trouble(Enum):
    """What happens to a request."""

    LOST = "the connection breaks, and the request is not executed"
    CUT = "it is executed, and the connection breaks before the answer"
    LATE = "the connection breaks, and the request is executed after others that come later"
    DELAYED = "it is executed, and the answer comes late"
    REFUSED = "it is answered by an error, and not executed"
    DENIED = "it is executed, and answered by an error all the same"


@dataclass(slots=True)
class Fault:
    """One trouble for one request.

    Attributes:
        api: Which kind of request.
        trouble: What happens to it.
        occurrence: The how many-th one from now on, from 1.
        code: Of an error.
        later: Of one that is late: it is executed after so many others.
    """

    api: int
    trouble: Trouble
    occurrence: int = 1
    code: int = 0
    later: int = 1


class ModelBroker(ListeningBroker):
    """Listens while it is entered.

    Args:
        cluster: What it answers for.
        version: Its feature `transaction.version`.
        spoken: Which versions of each API it says it speaks; None: those of Kafka 4.3.
        logins: Who may sign in; None: nobody has to.

    Attributes:
        faults: Those that have not happened yet.
        handled: Number of requests that were executed or refused.
    """

    def __init__(
        self,
        cluster: ModelCluster,
        version: int = 2,
        spoken: Mapping[int, tuple[int, int]] | None = None,
        logins: ModelLogins | None = None,
    ) -> None:
        super().__init__("model-broker")
        self.cluster = cluster
        self.faults: list[Fault] = []
        self.handled = 0
        self._late: list[tuple[int, Request]] = []
        self._turn = threading.Lock()
        self._logins = logins
        known = spoken or (VERSIONS if logins is None else SPOKEN)
        self._wire = ModelWire(cluster, (HOST, self.port), version, known)

    def settle(self) -> None:
        """Executes what is late, and writes the markers of all transactions that are being ended."""
        with self._turn:
            while self._late:
                self._execute_late(all_of_them=True)
            for _ in range(self.cluster.coordinator.ending + 1):
                self.cluster.coordinator.tick()

    def time_out(self, name: str) -> None:
        """Aborts the open transaction of a transactional id, as after its time-out."""
        with self._turn:
            if name in self.cluster.coordinator.holders:
                self.cluster.coordinator.time_out(name)

    def _serve(self, connection: socket.socket) -> None:
        session = ModelSession(self._logins)
        with connection, suppress(OSError):
            while (frame := read_frame(connection)) is not None:
                request = Request.parse(frame, 0)
                if not session.takes(request):
                    connection.sendall(session.answer(request))
                    continue
                with self._turn:
                    fault = self._fault_of(request)
                    answer = self._handled(request, fault)
                if fault is not None and fault.trouble is Trouble.DELAYED:
                    time.sleep(0.02)
                if answer is None:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                connection.sendall(answer)

    def _fault_of(self, request: Request) -> Fault | None:
        for fault in self.faults:
            if fault.api == request.api:
                fault.occurrence -= 1
                if not fault.occurrence:
                    self.faults.remove(fault)
                    return fault
        return None

    def _handled(self, request: Request, fault: Fault | None) -> bytes | None:
        """The answer; None if there is none."""
        self.handled += 1
        self._execute_late()
        self.cluster.coordinator.tick()
        trouble = None if fault is None else fault.trouble
        if trouble is Trouble.LOST:
            return None
        if trouble is Trouble.LATE:
            assert fault is not None
            self._late.append((self.handled + fault.later, request))
            return None
        if fault is not None and trouble in (Trouble.REFUSED, Trouble.DENIED):
            if trouble is Trouble.DENIED:
                self._answered(request)
            return self._answered(request, fault.code)
        answer = self._answered(request)
        return None if trouble is Trouble.CUT else answer

    def _execute_late(self, all_of_them: bool = False) -> None:
        due = [request for at, request in self._late if all_of_them or at <= self.handled]
        self._late = [(at, request) for at, request in self._late if request not in due]
        for request in due:
            self._answered(request)

    def _answered(self, request: Request, refused: int = 0) -> bytes:
        (client,) = struct.unpack_from(">h", request.frame, _HEADER - 2)
        body = request.frame[_HEADER + client + 1 :]  # and no tagged fields
        answer = self._wire.answer(request.api, request.version, body, refused)
        tags = b"" if request.api == Api.API_VERSIONS else b"\0"
        return struct.pack(">ii", len(tags) + len(answer) + 4, request.correlation) + tags + answer
