"""Who may ask the server."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.routing import Mount, Route

from k2k_assets.core.errors import Refused
from k2k_assets.server import access
from k2k_assets.server import api as api_module
from k2k_assets.server.pipeline_files import PipelineFiles
from k2k_assets.server.serve import serve
from k2k_assets_tests.server.asking import TOKEN, client
from k2k_assets_tests.support.copies.pipelines import write_pipeline

LIST = "/api/v1/pipelines"
PAUSE = "/api/v1/pipelines/orders:k2k.orders/pause"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_pipeline(tmp_path, "s:1", "t:1", ["orders"], name="orders", consumer={"group.id": "k2k.orders"})


@pytest.fixture(autouse=True)
def _wrong_tokens_cost_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_GUESS_SECONDS", 0.0)
    monkeypatch.setattr(api_module, "_LOGIN_SECONDS", 0.0)


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "localhost"])
def test_on_loopback_whoever_asks_for_loopback_is_answered(host: str, file: Path) -> None:
    assert client(file).get(LIST, headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "localhost.evil.example", "", "10.0.0.1"])
def test_a_name_that_was_bound_to_loopback_by_others_is_refused(host: str, file: Path) -> None:
    assert client(file).get(LIST, headers={"host": host}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"},
    ],
)
@pytest.mark.parametrize("token", ["", TOKEN])
def test_another_site_changes_nothing(headers: dict[str, str], token: str, file: Path) -> None:
    browser = client(file, token)
    browser.cookies.set(access.COOKIE, access.Token(TOKEN).cookie)
    sent = {"content-type": "application/json", **headers}
    answer = browser.post(PAUSE, headers=sent, content='{"topics": ["orders"]}')
    assert answer.status_code == 403
    assert "another site" in answer.json()["error"] or "send JSON" in answer.json()["error"]


def test_without_the_token_only_the_login_and_its_looks_are_answered(file: Path) -> None:
    asked = client(file, TOKEN, base_url="http://k2k.example", follow_redirects=False)
    routes = {route.path for route in asked.app.routes if isinstance(route, Route)}  # type: ignore[attr-defined]
    mounts = {route.path for route in asked.app.routes if isinstance(route, Mount)}  # type: ignore[attr-defined]
    assert mounts == {"/static"}
    answers = {path: asked.get(path.replace("{pipeline}", "orders")).status_code for path in routes}
    assert {path for path, status in answers.items() if status == 200} == {"/login", "/live"}
    assert {status for path, status in answers.items() if path not in ("/login", "/live", "/")} == {401}
    assert (answers["/"], asked.get("/static/login.js").status_code) == (303, 200)


@pytest.mark.parametrize(
    "path", ["/static/../api/v1/pipelines", "/static/%2e%2e/index.html", "/login/../api/v1/pipelines"]
)
def test_what_is_open_leads_to_nothing_else(path: str, file: Path) -> None:
    assert client(file, TOKEN).get(path).status_code in (401, 404)


def test_the_token_is_taken_as_a_header_or_by_the_login(file: Path) -> None:
    asked = client(file, TOKEN, base_url="http://k2k.example")
    assert asked.get(LIST, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert asked.get(LIST, headers={"authorization": "Bearer wrong"}).status_code == 401
    assert asked.get(LIST, headers={"authorization": f"Basic {TOKEN}"}).status_code == 401
    assert asked.post("/login", json={"token": "wrong"}).status_code == 401
    half = r'{"token": "\ud800"}'
    assert asked.post("/login", content=half, headers={"content-type": "application/json"}).status_code == 401
    assert asked.get(LIST).status_code == 401
    answer = asked.post("/login", json={"token": TOKEN})
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert asked.get(LIST).status_code == 200


@pytest.mark.parametrize(
    "cookie", ["k2k_tool=", "k2k_tool=wrong", 'k2k_tool="', "k2k_tool=\xfc", "=;=", f"k2k_tool={TOKEN}"]
)
def test_no_other_cookie_is_taken(cookie: str, file: Path) -> None:
    answer = client(file, TOKEN).get(LIST, headers={b"cookie": cookie.encode("latin-1")})
    assert answer.status_code == 401


def test_every_answer_keeps_browsers_from_being_used_by_others(file: Path) -> None:
    for path in ("/", LIST, "/nowhere", "/static/app.js"):
        headers = client(file).get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_read_only_changes_nothing(file: Path) -> None:
    asked = client(file, read_only=True)
    assert asked.get(LIST).json()["readOnly"] is True
    for change, body in (("pause", {"topics": ["orders"]}), ("positions", {"offsets": ["orders:0:earliest"]})):
        answer = asked.post(f"/api/v1/pipelines/orders:k2k.orders/{change}", json=body)
        assert (answer.status_code, answer.json()["error"]) == (403, "the server was started with --read-only")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_others_are_let_in_only_with_a_token(host: str, file: Path) -> None:
    def never(address: str) -> None:
        raise AssertionError(f"it listens at {address}")

    with pytest.raises(Refused, match="so it needs a token"):
        serve(PipelineFiles([(file,)]), host, 0, "", "tests", False, never)
    with pytest.raises(Refused, match="it needs 16 at least"):
        serve(PipelineFiles([(file,)]), host, 0, "short", "tests", False, never)
