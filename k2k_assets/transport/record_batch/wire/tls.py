"""TLS from librdkafka's property names: PEM files and texts."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from k2k_assets.core.errors import Refused
from k2k_assets.transport.record_batch.errors import NotByBatches

TLS_NAMES = frozenset(
    {
        "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location",
        "ssl.key.pem", "ssl.key.password", "ssl.cipher.suites", "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How connections are encrypted.

    Attributes:
        context: Python's settings; one serves all connections.
        checks_name: Whether the broker's certificate has to be of the host that was connected to.
    """

    context: ssl.SSLContext
    checks_name: bool


def tls_of(given: Mapping[str, str]) -> TlsSettings:
    """Reads certificates and key.

    Raises:
        NotByBatches: The settings are not understood.
        Refused: A file cannot be read, or is no certificate or key.
    """
    is_verified = given.get("enable.ssl.certificate.verification", "true").lower() == "true"
    algorithm = given.get("ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("https", "none"):
        raise NotByBatches([f"ssl.endpoint.identification.algorithm is {algorithm}"])
    checks_name = is_verified and algorithm == "https"
    try:
        context = _context(given)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # newer Pythons set it; librdkafka takes such certificates
        context.check_hostname = checks_name
        context.verify_mode = ssl.CERT_REQUIRED if is_verified else ssl.CERT_NONE
        if "ssl.cipher.suites" in given:
            context.set_ciphers(given["ssl.cipher.suites"])
        _load_certificate(context, given)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        # OpenSSL's words name no content of the files.
        raise Refused(f"the TLS settings (ssl.*) cannot be used: {error}") from None
    return TlsSettings(context, checks_name)


def _context(given: Mapping[str, str]) -> ssl.SSLContext:
    location, text = given.get("ssl.ca.location", "probe"), given.get("ssl.ca.pem")
    if location == "probe":
        return ssl.create_default_context(cadata=text)
    if Path(location).is_dir():
        return ssl.create_default_context(capath=location, cadata=text)
    return ssl.create_default_context(cafile=location, cadata=text)


def _load_certificate(context: ssl.SSLContext, given: Mapping[str, str]) -> None:
    """Loads the client's own certificate and key. Python reads files only, so texts are written to one for a moment."""
    password = given.get("ssl.key.password", "")  # without one OpenSSL would ask on the terminal
    chain, key = given.get("ssl.certificate.location"), given.get("ssl.key.location")
    texts = [given[name] for name in ("ssl.key.pem", "ssl.certificate.pem") if name in given]
    if not texts:
        if chain:
            context.load_cert_chain(chain, key, password)
        return
    with NamedTemporaryFile("w", suffix=".pem") as file:  # only its owner may read it
        file.write("\n".join(texts))
        file.flush()
        context.load_cert_chain(chain or file.name, key or file.name, password)
