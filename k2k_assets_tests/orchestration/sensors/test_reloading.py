"""How the definitions are reloaded after a discovery."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.orchestration.sensors import reloading
from k2k_assets.orchestration.sensors.reloading import URL_VARIABLE, reload_location, reload_soon


class WebServer(BaseHTTPRequestHandler):
    """Answers as Dagster's does; what it was asked is remembered."""

    answer: ClassVar[dict[str, Any]] = {}
    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(f"{self.path} {body['variables']['location']}")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(self.answer).encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), WebServer)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    WebServer.asked.clear()
    WebServer.answer = {"data": {"reloadRepositoryLocation": {"__typename": "WorkspaceLocationEntry"}}}
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_the_web_server_is_asked_a_moment_after_the_tick(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloading, "_AFTER_SECONDS", 0.01)
    monkeypatch.setenv(URL_VARIABLE, f"{url}/")
    assert reload_soon("k2k_assets.definitions")
    wait_until(lambda: WebServer.asked, 120, "the web server to be asked")
    assert WebServer.asked == ["/graphql k2k_assets.definitions"]


def test_nobody_is_asked_where_nobody_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    assert not reload_soon("somewhere")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"errors": [{"message": "no such field"}]}, "no such field"),
        ({"data": {"reloadRepositoryLocation": {"message": "broken code"}}}, "broken code"),
    ],
)
def test_a_refusal_is_told(url: str, answer: dict[str, Any], why: str) -> None:
    WebServer.answer = answer
    with pytest.raises(ValueError, match=f"{url} refuses: {why}"):
        reload_location(url, "x")


def test_what_is_no_address_is_not_opened() -> None:
    with pytest.raises(ValueError, match="is not an http address"):
        reload_location("file:///etc/passwd", "x")


def test_a_web_server_that_comes_later_is_waited_for(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon's first tick discovers most of all, and it may come before the server listens."""
    away = "http://127.0.0.1:1"
    pauses: list[float] = []

    def ask(_: str, location: str) -> None:
        reload_location(url if len(pauses) == 3 else away, location)

    monkeypatch.setattr(reloading, "reload_location", ask)
    reloading._reload_or_say_why(away, "x", pauses.append)
    assert (len(pauses), WebServer.asked) == (3, ["/graphql x"])


def test_a_web_server_that_refuses_is_asked_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    WebServer.answer = {"errors": [{"message": "no such location"}]}
    reloading._reload_or_say_why(url, "x", lambda _: pytest.fail("it is asked again"))
    assert "the definitions are not reloaded" in caplog.text
    assert "no such location" in caplog.text


def test_a_web_server_that_never_answers_is_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloading, "_TRY_SECONDS", 0.0)
    reloading._reload_or_say_why("http://127.0.0.1:1", "x")
    assert "the definitions are not reloaded: <urlopen error" in caplog.text
    assert URL_VARIABLE in caplog.text
