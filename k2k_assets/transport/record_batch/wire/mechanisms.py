"""SASL mechanisms: PLAIN, SCRAM and OAUTHBEARER with a token that is not signed. No error has a secret in it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass

from k2k_assets.transport.record_batch.errors import LoginRefused, NotByBatches

Exchange = Generator[bytes, bytes, None]
"""Yields the client's steps, and is sent the broker's."""

# Brokers say how often a password is hashed; Kafka's own allow 16,384. More would only keep this process busy.
_MOST_ITERATIONS = 200_000
_SCRAM = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_TOKEN_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A mechanism with the credentials in it.

    Attributes:
        name: As brokers know it.
        exchange: Makes its steps; a new one for each login.
    """

    name: str
    exchange: Callable[[], Exchange]


def mechanism_of(given: Mapping[str, str]) -> Mechanism:
    """The mechanism that properties (librdkafka names) ask for.

    Raises:
        NotByBatches: It is none of those here.
    """
    name = given.get("sasl.mechanisms", given.get("sasl.mechanism", "GSSAPI")).upper()
    user, password = given.get("sasl.username", ""), given.get("sasl.password", "")
    if name == "PLAIN":
        return Mechanism(name, lambda: plain(user, password))
    if name in _SCRAM:
        return Mechanism(name, lambda: scram(_SCRAM[name], user, password))
    if name == "OAUTHBEARER":
        if given.get("enable.sasl.oauthbearer.unsecure.jwt", "false").lower() != "true":
            raise NotByBatches(["tokens for OAUTHBEARER are fetched by librdkafka"])
        config = unsecured_config(given.get("sasl.oauthbearer.config", ""))
        return Mechanism(name, lambda: bearer(unsecured_token(config), config.extensions))
    raise NotByBatches([f"the SASL mechanism {name}"])


def plain(user: str, password: str) -> Exchange:
    """User and password as they are."""
    yield b"\0".join((b"", user.encode(), password.encode()))


def scram(digest: str, user: str, password: str, nonce: str | None = None) -> Exchange:
    """RFC 5802: shows that the password is known, and that the broker knows it.

    Args:
        digest: Name of the hash.
        user: The user.
        password: Its password.
        nonce: For tests; else drawn.
    """
    nonce = nonce or secrets.token_urlsafe(24)
    escaped = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={escaped},r={nonce}".encode()
    challenge = yield b"n,," + first
    said = _attributes(challenge)
    salt, iterations = _salt_and_iterations(said)
    if not said["r"].startswith(nonce) or said["r"] == nonce:
        raise LoginRefused("the broker's answer to the login is to somebody else's (SCRAM nonce)")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    final = f"c=biws,r={said['r']}".encode()
    signed = b",".join((first, challenge, final))
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    outcome = yield final + b",p=" + base64.b64encode(proof)
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(_decoded(_attributes(outcome).get("v", "")), expected):
        raise LoginRefused("the broker does not know the password either (SCRAM signature)")


def _attributes(message: bytes) -> dict[str, str]:
    parts = message.decode("utf-8", "replace").split(",")
    return {name: value for name, is_there, value in (part.partition("=") for part in parts) if is_there}


def _salt_and_iterations(said: Mapping[str, str]) -> tuple[bytes, int]:
    iterations = said.get("i", "")
    if "r" not in said or "s" not in said or not iterations.isdecimal() or len(iterations) > 9:
        raise LoginRefused("the broker's answer to the login is no SCRAM message")
    if not 0 < int(iterations) <= _MOST_ITERATIONS:
        raise LoginRefused(
            f"the broker asks for {iterations} SCRAM iterations, and at most {_MOST_ITERATIONS} are made"
        )
    return _decoded(said["s"]), int(iterations)


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        raise LoginRefused("the broker's answer to the login is no SCRAM message") from None


@dataclass(frozen=True, slots=True)
class UnsecuredConfig:
    """What `sasl.oauthbearer.config` says.

    Attributes:
        principal_claim: Name of the claim with the principal.
        principal: Who signs in.
        scope_claim: Name of the claim with the scope.
        scope: The scope; empty for none.
        seconds: How long a token is valid.
        extensions: SASL extensions.
    """

    principal_claim: str
    principal: str
    scope_claim: str
    scope: tuple[str, ...]
    seconds: int
    extensions: dict[str, str]


def unsecured_config(words: str) -> UnsecuredConfig:
    """Reads `sasl.oauthbearer.config`.

    Raises:
        NotByBatches: It holds something else.
    """
    options = dict(word.split("=", 1) for word in words.split() if "=" in word)
    extensions = {name[10:]: options.pop(name) for name in list(options) if name.startswith("extension_")}
    seconds = options.pop("lifeSeconds", str(_TOKEN_SECONDS))
    found = UnsecuredConfig(
        options.pop("principalClaimName", "sub"),
        options.pop("principal", ""),
        options.pop("scopeClaimName", "scope"),
        tuple(filter(None, options.pop("scope", "").split(","))),
        int(seconds) if seconds.isdecimal() else 0,
        extensions,
    )
    if options or not found.principal or not found.seconds or any("=" not in word for word in words.split()):
        raise NotByBatches(["sasl.oauthbearer.config is not understood by it"])
    return found


def unsecured_token(config: UnsecuredConfig) -> str:
    """A token that is not signed, valid from now on."""
    now = time.time()
    claims: dict[str, object] = {config.principal_claim: config.principal, "iat": now, "exp": now + config.seconds}
    if config.scope:
        claims[config.scope_claim] = list(config.scope)
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(content: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def bearer(token: str, extensions: Mapping[str, str]) -> Exchange:
    """RFC 7628: shows a token."""
    pairs = "".join(f"{name}={value}\x01" for name, value in extensions.items())
    refusal = yield f"n,,\x01auth=Bearer {token}\x01{pairs}\x01".encode()
    if refusal:
        yield b"\x01"
        raise LoginRefused("the broker refuses the token")
