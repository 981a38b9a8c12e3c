"""Who may ask the server: nobody from elsewhere without the token, and no other site's page through a browser."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "k2k_tool"
SHORTEST_TOKEN = 16
_OPEN = frozenset({"/login", "/live"})
_OPEN_FOLDER = "/static/"
_SAFE = frozenset({"GET", "HEAD"})
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_GUESS_SECONDS = 1.0
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class Token:
    """The token that whoever asks has to know.

    Args:
        text: The token.
    """

    def __init__(self, text: str) -> None:
        self._text = text.encode()

    @property
    def cookie(self) -> str:
        """What a browser keeps; the token cannot be told from it."""
        return hmac.new(self._text, b"k2k-tool server", hashlib.sha256).hexdigest()

    def is_given(self, text: str) -> bool:
        """Whether the text is the token. It takes as long for a wrong one."""
        # JSON may name half of a character, which UTF-8 cannot have.
        return hmac.compare_digest(self._text, text.encode(errors="surrogatepass"))

    def is_in(self, headers: Headers) -> bool:
        """Whether a request has it, as `Authorization: Bearer` or as the cookie of the login."""
        kind, _, value = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.is_given(value.strip())
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(self.cookie.encode(), found.value.encode())


class Guard:
    """Lets through who may ask, and sets the headers that keep a browser from being used by others.

    Args:
        app: What answers.
        token: What has to be known; None on the loopback address, where the name in the request has to be loopback's.
    """

    def __init__(self, app: ASGIApp, token: Token | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = await self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_with_headers)

    async def _refusal(self, scope: Scope) -> Response | None:
        headers, path, method = Headers(scope=scope), str(scope["path"]), str(scope["method"])
        if method not in _SAFE and (why := _foreign(headers)):
            return _no(403, why)
        if self._token is None:
            name = urlsplit(f"//{headers.get('host', '')}").hostname
            return None if name in _LOOPBACK_NAMES else _no(403, "ask for localhost: other names need a token")
        if path in _OPEN or path.startswith(_OPEN_FOLDER) or self._token.is_in(headers):
            return None
        if "authorization" in headers:
            await asyncio.sleep(_GUESS_SECONDS)
        if path == "/":
            return RedirectResponse("/login", status_code=303)
        return _no(401, "the token is missing or wrong; send it as 'Authorization: Bearer ...'")


def _foreign(headers: Headers) -> str:
    """Why a request that changes something comes from another site, as far as a browser tells; empty if it does not."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return "another site sent this request"
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("host"):
        return "another site sent this request"
    # A form of another site can send text, and forms; JSON it cannot without being asked first.
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return "send JSON, as Content-Type: application/json"
    return ""


def _no(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status_code=status)
