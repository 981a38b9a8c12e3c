"""Certificates made on the fly: an authority of one cluster, which signs for its broker and its clients.

Everything is PEM, which Kafka and OpenSSL both read as it is. The authority's own key stays in its directory, so that
a cluster that is started again on its data keeps its certificates.
"""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

from k2k_assets.sandbox.private_files import write_private

_ORGANIZATION = "K2K sandbox"


class Authority:
    """A certificate authority that is found again in its directory, or made there.

    Args:
        directory: Must exist. It holds the authority's certificate (`ca.pem`) and its key.
        name: The organizational unit of its certificates.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self.certificate_file = directory / "ca.pem"
        self._name = name
        key_file = directory / "ca.key"
        if key_file.exists():
            self._authority = trustme.CA.from_pem(self.certificate_file.read_bytes(), key_file.read_bytes())
        else:
            self._authority = trustme.CA(organization_name=_ORGANIZATION, organization_unit_name=name)
            self._authority.cert_pem.write_to_path(self.certificate_file)
            write_private(key_file, self._authority.private_key_pem.bytes().decode())

    def issue(self, name: str) -> str:
        """A new private key and its certificate, as one PEM text.

        The certificate is good for clients, and for servers at `localhost` and 127.0.0.1.

        Args:
            name: The common name, which brokers map to the user's name.
        """
        made = self._authority.issue_cert(
            *("localhost", "127.0.0.1"),
            common_name=name,
            organization_name=_ORGANIZATION,
            organization_unit_name=self._name,
        )
        return _pkcs8(made.private_key_pem.bytes()) + made.cert_chain_pems[0].bytes().decode()


def _pkcs8(key: bytes) -> str:
    """A private key in the only form that Kafka reads; that of trustme is another one."""
    loaded = serialization.load_pem_private_key(key, password=None)
    plain = serialization.NoEncryption()
    return loaded.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode()
