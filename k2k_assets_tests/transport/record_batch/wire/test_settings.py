"""Properties by librdkafka's names: understood, without effect, or a reason to leave the reading to librdkafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.pipeline.clients.librdkafka_names import ALL_CLIENTS, CONSUMER
from k2k_assets.transport.record_batch.errors import NotByBatches
from k2k_assets.transport.record_batch.wire import settings
from k2k_assets.transport.record_batch.wire.settings import settings_of

SERVERS = {"bootstrap.servers": "a:1,b:2"}
MIB = 1024 * 1024


def _reasons(**more: object) -> tuple[str, ...]:
    with pytest.raises(NotByBatches) as refused:
        settings_of({**SERVERS, **{name.replace("_", "."): value for name, value in more.items()}})
    return refused.value.reasons


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        ("a:1", (("a", 1),)),
        (" a:1 , b ", (("a", 1), ("b", 9092))),
        ("SSL://a:1", (("a", 1),)),
        ("[::1]:7,::1,[::2]", (("::1", 7), ("::1", 9092), ("::2", 9092))),
    ],
)
def test_addresses(servers: str, expected: tuple[tuple[str, int], ...]) -> None:
    assert settings_of({"bootstrap.servers": servers}).servers == expected


def test_numbers_are_taken_by_both_of_their_names() -> None:
    found = settings_of({**SERVERS, "max.partition.fetch.bytes": 7, "fetch.max.bytes": "9", "socket.timeout.ms": 1500})
    assert (found.limits.of_partition, found.limits.most, found.answer_seconds) == (7, 9, 1.5)
    assert settings_of({**SERVERS, "fetch.message.max.bytes": 8}).limits.of_partition == 8


def test_what_is_fetched_ahead_can_be_limited() -> None:
    found = settings_of(SERVERS, 4 * MIB)
    assert (found.queued, found.limits.most, found.limits.of_partition) == (4 * MIB, 2 * MIB, MIB)


def test_an_answer_may_be_as_long_as_was_asked_for() -> None:
    found = settings_of({**SERVERS, "fetch.max.bytes": 10**9, "receive.message.max.bytes": 1000})
    assert found.largest_answer > 10**9


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"isolation_level": "read_uncommitted"}, "read_uncommitted"),
        ({"client_rack": "a"}, "client.rack"),
        ({"ssl_keystore_location": "/x.p12"}, "ssl.keystore.location"),
        ({"security_protocol": "sasl_ssl", "sasl_mechanisms": "GSSAPI"}, "GSSAPI"),
        ({"security_protocol": "sasl_plaintext", "sasl_mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ({"security_protocol": "sasl_plaintext", "sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_config": "secret",
          "enable_sasl_oauthbearer_unsecure_jwt": "true"}, "sasl.oauthbearer.config"),
        ({"security_protocol": "quic"}, "quic"),
        ({"fetch_max_bytes": "many"}, "fetch.max.bytes"),
        ({"bootstrap_servers": "a:port"}, "no port"),
        ({"bootstrap_servers": ""}, "missing"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_said(properties: dict[str, object], reason: str) -> None:
    (said,) = _reasons(**properties)
    assert reason in said


def test_all_reasons_are_said_and_no_value_with_them() -> None:
    said = _reasons(sasl_oauthbearer_client_secret="hidden", ssl_crl_location="hidden", client_rack="hidden")
    assert len(said) == 3
    assert "hidden" not in " ".join(said)


def test_every_name_that_librdkafka_knows_was_thought_of() -> None:
    """Those that are in none of the three groups are refused; here is which, so that a new one is noticed."""
    left = (ALL_CLIENTS | CONSUMER) - settings._UNDERSTOOD - settings._WITHOUT_EFFECT
    tls_and_login = {name for name in left if name.startswith(("sasl.", "ssl.", "https."))}
    assert left - tls_and_login == {
        "broker.address.family", "client.dns.lookup", "client.rack", "share.acknowledgement.mode",
        "socket.receive.buffer.bytes", "socket.send.buffer.bytes", "topic.blacklist",
    }  # fmt: skip
    assert not settings._UNDERSTOOD & settings._WITHOUT_EFFECT


def test_a_file_that_is_no_certificate_is_refused(tmp_path: Path) -> None:
    for name in ("ssl.ca.location", "ssl.certificate.location"):
        file = tmp_path / "ca.pem"
        file.write_text("top secret")
        with pytest.raises(Refused, match=r"ssl\.\*") as refused:
            settings_of({**SERVERS, "security.protocol": "ssl", name: str(file)})
        assert "top secret" not in str(refused.value)
    with pytest.raises(Refused):
        settings_of({**SERVERS, "security.protocol": "ssl", "ssl.ca.location": str(tmp_path / "none.pem")})
