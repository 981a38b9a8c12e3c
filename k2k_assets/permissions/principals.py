"""The principal of a program on a cluster, as far as its client settings tell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_BY_NAME = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ANONYMOUS = "User:ANONYMOUS"


def principal_of(properties: Mapping[str, object]) -> str | None:
    """The principal of a client; None if only the broker knows it (certificates, tokens).

    Args:
        properties: Client settings, librdkafka names.
    """
    protocol = str(properties.get("security.protocol", "plaintext")).lower()
    if protocol.startswith("sasl"):
        mechanism = str(properties.get("sasl.mechanisms", properties.get("sasl.mechanism", "GSSAPI"))).upper()
        name = properties.get("sasl.username")
        return f"User:{name}" if mechanism in _BY_NAME and name else None
    return None if protocol == "ssl" and _has_certificate(properties) else ANONYMOUS


def who(properties: Mapping[str, object]) -> str:
    """Text that names the principal, or the settings that decide it."""
    known = principal_of(properties)
    if known:
        return known
    if not _has_certificate(properties):
        return "the principal of this client's credentials"
    subject = _subject(properties)
    return f"the principal of this client's certificate{f' ({subject})' if subject else ''}"


def _subject(properties: Mapping[str, object]) -> str | None:
    """The subject of a PEM certificate, as brokers name it by default; None if it cannot be read."""
    # Imported here, because only errors need it, not each start.
    from cryptography import x509

    try:
        text = properties.get("ssl.certificate.pem")
        location = properties.get("ssl.certificate.location")
        pem = str(text).encode() if text else Path(str(location)).read_bytes()
        return x509.load_pem_x509_certificates(pem)[0].subject.rfc4514_string()
    except (OSError, ValueError):
        return None


def _has_certificate(properties: Mapping[str, object]) -> bool:
    return any(
        name in properties for name in ("ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location")
    )
