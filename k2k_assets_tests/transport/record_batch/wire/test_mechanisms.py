"""SASL mechanisms, step by step, also with brokers that lie."""

from __future__ import annotations

import base64
import json

import pytest

from k2k_assets.transport.record_batch.errors import LoginRefused, NotByBatches
from k2k_assets.transport.record_batch.wire.mechanisms import (
    Exchange,
    bearer,
    mechanism_of,
    plain,
    scram,
    unsecured_config,
    unsecured_token,
)

# The example of RFC 7677.
USER, PASSWORD, NONCE = "user", "pencil", "rOprNGfwEbeRWgbNEkqO"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
OUTCOME = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def _begun() -> Exchange:
    exchange = scram("sha256", USER, PASSWORD, NONCE)
    assert next(exchange) == FIRST
    return exchange


def test_plain() -> None:
    assert list(plain("me", "pässword")) == [b"\0me\0p\xc3\xa4ssword"]


def test_scram_as_in_its_rfc() -> None:
    exchange = _begun()
    assert exchange.send(CHALLENGE) == FINAL
    with pytest.raises(StopIteration):
        exchange.send(OUTCOME)


def test_a_user_name_is_escaped() -> None:
    assert b"n=a=3Db=2Cc," in next(scram("sha256", "a=b,c", PASSWORD))


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"\xff\xfe",
        CHALLENGE.replace(b"rOpr", b"else"),
        b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",  # adds nothing of its own
        CHALLENGE.replace(b"4096", b"0"),
        CHALLENGE.replace(b"4096", b"2000000000"),
        CHALLENGE.replace(b"4096", b"9" * 5000),
        CHALLENGE.replace(b"W22Z", b"!!!!"),
    ],
)
def test_a_challenge_that_cannot_be_one_ends_it_at_once(challenge: bytes) -> None:
    with pytest.raises(LoginRefused) as refused:
        _begun().send(challenge)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize("outcome", [b"", b"e=other-error", b"v=", b"v=!!", OUTCOME.replace(b"6rri", b"AAAA")])
def test_a_broker_that_does_not_know_the_password_is_not_believed(outcome: bytes) -> None:
    exchange = _begun()
    exchange.send(CHALLENGE)
    with pytest.raises(LoginRefused):
        exchange.send(outcome)


def test_a_token_with_extensions_and_its_refusal() -> None:
    exchange = bearer("token", {"a": "b"})
    assert next(exchange) == b"n,,\x01auth=Bearer token\x01a=b\x01\x01"
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(LoginRefused):
        exchange.send(b"")


def test_a_token_that_is_not_signed_has_the_claims_that_the_settings_name() -> None:
    config = unsecured_config("principal=me scope=a,b lifeSeconds=60 extension_x=y principalClaimName=who")
    assert config.extensions == {"x": "y"}
    head, claims, signature = unsecured_token(config).split(".")
    found = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none"}
    assert (found["who"], found["scope"], signature) == ("me", ["a", "b"], "")
    assert found["exp"] - found["iat"] == 60


@pytest.mark.parametrize("words", ["", "principal=", "principal=me other=1", "principal=me lifeSeconds=x", "me"])
def test_settings_of_tokens_that_are_not_understood(words: str) -> None:
    with pytest.raises(NotByBatches):
        unsecured_config(words)


def test_each_login_begins_anew() -> None:
    mechanism = mechanism_of({"sasl.mechanism": "scram-sha-512", "sasl.username": "me", "sasl.password": "p"})
    assert mechanism.name == "SCRAM-SHA-512"
    assert next(mechanism.exchange()) != next(mechanism.exchange())
