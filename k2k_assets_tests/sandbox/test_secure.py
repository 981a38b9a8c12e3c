"""Keys, certificates and passwords of a secured sandbox, without a broker."""

from __future__ import annotations

import stat
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from k2k_assets.sandbox.broker_settings import BrokerIdentity
from k2k_assets.sandbox.certificates import Authority
from k2k_assets.sandbox.security import BrokerSecurity

IDENTITY = BrokerIdentity("id", 20_001, 20_002, 20_003)


def _certificate(pem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem.encode())


def test_certificates_are_signed_by_the_authority_that_the_directory_holds(tmp_path: Path) -> None:
    first = _certificate(Authority(tmp_path, "one").issue("alice"))
    again = _certificate(Authority(tmp_path, "one").issue("bob"))
    root = x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes())
    for certificate, name in ((first, "CN=alice"), (again, "CN=bob")):
        certificate.verify_directly_issued_by(root)
        assert certificate.subject.rfc4514_string() == f"{name},OU=one,O=K2K sandbox"


def test_a_certificate_is_good_for_this_machine_and_comes_with_its_key(tmp_path: Path) -> None:
    pem = Authority(tmp_path, "one").issue("broker")
    certificate = _certificate(pem)
    key = serialization.load_pem_private_key(pem.encode(), password=None)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert key.public_key() == certificate.public_key()
    assert pem.startswith("-----BEGIN PRIVATE KEY-----\n"), "PKCS #8: Kafka reads nothing else"


def test_secrets_are_for_their_owner_only_and_stay(tmp_path: Path) -> None:
    security = BrokerSecurity(tmp_path / "security", "source")
    password = security.password_file("alice").read_text()
    certificate = security.certificate_file("alice").read_text()
    security.settings(IDENTITY)
    again = BrokerSecurity(tmp_path / "security", "source")
    assert again.password_file("alice").read_text() == password
    assert again.certificate_file("alice").read_text() == certificate
    assert again.password_file("bob").read_text() != password
    assert stat.S_IMODE(security.directory.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in security.directory.iterdir()}
    assert {name for name, mode in modes.items() if mode != 0o600} == {"ca.pem"}
    assert {"ca.key", "broker.pem", "alice.pem", "alice.password", "bob.password"} <= modes.keys()


def test_no_listener_is_open(tmp_path: Path) -> None:
    settings = BrokerSecurity(tmp_path, "source").settings(IDENTITY)
    protocols = dict(pair.split(":") for pair in settings["listener.security.protocol.map"].split(","))
    listeners = dict(listener.split("://") for listener in settings["listeners"].split(","))
    assert listeners == {"SCRAM": "127.0.0.1:20001", "CONTROLLER": "127.0.0.1:20002", "MTLS": "127.0.0.1:20003"}
    assert protocols == {"SCRAM": "SASL_SSL", "MTLS": "SSL", "CONTROLLER": "SSL"}
    assert settings["allow.everyone.if.no.acl.found"] == "false"
    assert {settings[f"listener.name.{name}.ssl.client.auth"] for name in ("mtls", "controller")} == {"required"}
