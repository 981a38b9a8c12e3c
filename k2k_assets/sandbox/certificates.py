"""Certificates made on the fly: an authority of one cluster, which signs for its broker and its clients.

Everything is PEM, which Kafka and OpenSSL both read as it is. The authority's own key stays in its directory, so that
a cluster that is started again on its data keeps its certificates.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from k2k_assets.sandbox.private_files import write_private

_DAY = datetime.timedelta(days=1)
_LIFETIME = 3650 * _DAY


class Authority:
    """A certificate authority that is found again in its directory, or made there.

    Args:
        directory: Must exist. It holds the authority's certificate (`ca.pem`) and its key.
        name: The authority's common name.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self.certificate_file = directory / "ca.pem"
        key_file = directory / "ca.key"
        if key_file.exists():
            self._key = _read_key(key_file)
            self._certificate = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())
        else:
            self._key = ec.generate_private_key(ec.SECP256R1())
            self._certificate = self._sign_own(_named(name))
            self.certificate_file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
            write_private(key_file, _key_text(self._key))

    def issue(self, name: str) -> str:
        """A new private key and its certificate, as one PEM text.

        The certificate is good for clients, and for servers at `localhost` and 127.0.0.1.

        Args:
            name: The common name, which brokers map to the user's name.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            _builder(_named(name), self._certificate.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(here), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return _key_text(key) + certificate.public_bytes(serialization.Encoding.PEM).decode()

    def _sign_own(self, name: x509.Name) -> x509.Certificate:
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
            key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
            decipher_only=False,
        )  # fmt: skip
        return (
            _builder(name, name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)  # clocks differ
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_text(key: ec.EllipticCurvePrivateKey) -> str:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode()


def _read_key(file: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(file.read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey), f"{file} is not a key of this sandbox"
    return key
