"""An issuer of OAuth tokens on this machine: client credentials in, signed JWTs out, and its key as a JWKS file."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from k2k_assets_tests.support.services.http_server import AnsweringHandler, HttpServer

ISSUER, AUDIENCE, KEY_ID = "https://issuer.test", "kafka", "k1"


class TokenEndpoint(HttpServer):
    """Used as a context manager.

    Args:
        clients: Secret of each client.
        lifetime: Seconds that a token is good for.

    Attributes:
        requests: Tokens given out, by client.
        refused: Requests with a wrong secret.
        scopes: What was asked for.
    """

    def __init__(self, clients: dict[str, str], lifetime: float = 60.0) -> None:
        self._clients = clients
        self._lifetime = lifetime
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.requests: dict[str, int] = {}
        self.refused = 0
        self.scopes: set[str] = set()
        super().__init__(self._handler())

    @property
    def url(self) -> str:
        """Where tokens are asked for."""
        return f"{self.address}/token"

    def write_keys(self, path: Path) -> Path:
        """Writes the public key as brokers read it."""
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA", "kid": KEY_ID, "use": "sig", "alg": "RS256",
            "n": _text(numbers.n.to_bytes(256, "big")), "e": _text(numbers.e.to_bytes(3, "big")),
        }  # fmt: skip
        path.write_text(json.dumps({"keys": [key]}))
        return path

    def token(self, client: str) -> str:
        """A token of a client."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": client, "scope": "kafka", "iat": now,
                  "exp": now + int(self._lifetime)}  # fmt: skip
        signed = f"{_json({'alg': 'RS256', 'kid': KEY_ID, 'typ': 'JWT'})}.{_json(claims)}"
        return f"{signed}.{_text(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def _answer(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        given = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        client, secret = (given[0], given[2]) if authorization.startswith("Basic ") else ("", "")
        if not client:
            client, secret = (form.get(name, [""])[0] for name in ("client_id", "client_secret"))
        if form.get("grant_type") != ["client_credentials"] or self._clients.get(client) != secret:
            self.refused += 1
            return 401, {"error": "invalid_client"}
        self.requests[client] = self.requests.get(client, 0) + 1
        self.scopes |= set(form.get("scope", []))
        return 200, {"access_token": self.token(client), "token_type": "Bearer", "expires_in": int(self._lifetime)}

    def _handler(self) -> type[AnsweringHandler]:
        endpoint = self

        class Handler(AnsweringHandler):
            def do_POST(self) -> None:  # noqa: N802
                form = parse_qs(self.body().decode())
                status, answer = endpoint._answer(self.headers.get("Authorization", ""), form)
                self.answer(status, {"Content-Type": "application/json"}, json.dumps(answer).encode())

        return Handler


def _json(document: dict[str, Any]) -> str:
    return _text(json.dumps(document).encode())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
