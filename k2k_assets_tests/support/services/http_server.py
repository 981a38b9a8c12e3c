"""HTTP servers for tests, each in a thread of this process."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class AnsweringHandler(BaseHTTPRequestHandler):
    """Answers without a line in a log."""

    def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Sends a whole answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        """The body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def log_message(self, format: str, *args: object) -> None:
        pass


class HttpServer:
    """Serves while it is used as a context manager.

    Args:
        handler: Answers requests.
    """

    def __init__(self, handler: type[AnsweringHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)

    @property
    def address(self) -> str:
        """Where it listens, without TLS."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def json_answer(address: str, path: str) -> tuple[int, Any]:
    """Status and JSON of what a server answers, also where it says that something is wrong."""
    try:
        with urllib.request.urlopen(f"{address}{path}", timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
