"""A door in front of a real registry: TLS, a user with a password, or a bearer token; and what it let in."""

from __future__ import annotations

import base64
import http.client
import ssl
import time
from email.message import Message
from pathlib import Path
from urllib.parse import urlsplit

from k2k_assets.sandbox.certificates import Authority
from k2k_assets_tests.support.services.http_server import AnsweringHandler, HttpServer

_HOP_BY_HOP = ("connection", "transfer-encoding", "keep-alive", "content-length")


class GuardedRegistry(HttpServer):
    """Used as a context manager.

    Args:
        directory: Where its certificates are made.
        behind: Address of the real registry.
        user: Name and password that are wanted; None: none.
        token: Bearer token that is wanted; None: none.
        asks_for_certificate: Whether a client needs a certificate.

    Attributes:
        let_in: Requests that were passed on.
        refused: Requests that were not.
        asked: Method and path of each request that was passed on, and its headers.
        user: May be changed: then the old password is wrong.
        seconds: How long it takes for each request; may be changed.
    """

    def __init__(
        self,
        directory: Path,
        behind: str,
        user: tuple[str, str] | None = None,
        token: str | None = None,
        asks_for_certificate: bool = False,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._authority = Authority(directory, "registry")
        self._behind = urlsplit(behind)
        self.user, self._token = user, token
        self.let_in = self.refused = 0
        self.seconds = 0.0
        self.asked: list[tuple[str, Message]] = []
        self.client_file = directory / "client.pem"
        self.client_file.write_text(self._authority.issue("k2k"))
        own = directory / "server.pem"
        own.write_text(self._authority.issue("registry"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own)
        if asks_for_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self._authority.certificate_file)
        super().__init__(self._handler())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"https://localhost:{self._server.server_port}{self._behind.path}"

    @property
    def authority_file(self) -> Path:
        """Who signed its certificate."""
        return self._authority.certificate_file

    def _is_welcome(self, authorization: str) -> bool:
        if self.user is not None:
            return authorization == f"Basic {base64.b64encode(':'.join(self.user).encode()).decode()}"
        return self._token is None or authorization == f"Bearer {self._token}"

    def _handler(self) -> type[AnsweringHandler]:
        guard = self

        class Handler(AnsweringHandler):
            protocol_version = "HTTP/1.1"

            def _pass_on(self) -> None:
                body = self.body()
                if not guard._is_welcome(self.headers.get("Authorization", "")):
                    guard.refused += 1
                    self.answer(401, {}, b'{"error_code": 40101, "message": "Unauthorized"}')
                    return
                guard.let_in += 1
                time.sleep(guard.seconds)
                guard.asked.append((f"{self.command} {self.path}", self.headers))
                behind = http.client.HTTPConnection(str(guard._behind.hostname), guard._behind.port, timeout=10)
                try:
                    headers = {"Content-Type": self.headers.get("Content-Type", "application/json")}
                    behind.request(self.command, self.path, body, headers)
                    answer = behind.getresponse()
                    found = {k: v for k, v in answer.getheaders() if k.lower() not in _HOP_BY_HOP}
                    self.answer(answer.status, found, answer.read())
                finally:
                    behind.close()

            do_GET = do_POST = do_PUT = do_DELETE = _pass_on  # noqa: N815

        return Handler
