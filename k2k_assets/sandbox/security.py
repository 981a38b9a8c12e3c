"""What secures a broker of the sandbox: its listeners, its certificates, and the passwords of its users.

Clients come in by SCRAM-SHA-512 over TLS, or by a certificate (mTLS). The broker itself and its controller know each
other by certificate too; no listener is open. Nobody may do anything without an ACL but the users `admin` and
`broker`. No password is ever an argument of a process.
"""

from __future__ import annotations

import secrets
from functools import cached_property
from pathlib import Path

from k2k_assets.sandbox.broker_settings import BrokerIdentity
from k2k_assets.sandbox.certificates import Authority
from k2k_assets.sandbox.private_files import private_directory, write_private

ADMIN = "admin"
"""The user who may do everything; known by a certificate only."""

_BROKER = "broker"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_NAMES_OF_CERTIFICATES = "RULE:^CN=([a-zA-Z0-9._-]+)(,.*)?$/$1/,DEFAULT"


class BrokerSecurity:
    """Keys, certificates and passwords of one cluster, in a directory that only its owner may enter.

    What the directory holds from an earlier start is used again.

    Args:
        directory: Made when it is missing.
        cluster: The cluster's name, for its certificate authority.
    """

    def __init__(self, directory: Path, cluster: str) -> None:
        self.directory = private_directory(directory.resolve())
        self._cluster = cluster

    @property
    def authority_file(self) -> Path:
        """The certificate (PEM) of the authority that signed the broker's."""
        return self._authority.certificate_file

    @cached_property
    def _authority(self) -> Authority:
        return Authority(self.directory, self._cluster)

    def certificate_file(self, user: str) -> Path:
        """A user's private key and certificate (PEM, one file), made when it is missing."""
        path = self.directory / f"{user}.pem"
        return path if path.exists() else write_private(path, self._authority.issue(user))

    def password_file(self, user: str) -> Path:
        """The file that holds a user's password and nothing else; a random one is made when it is missing."""
        path = self.directory / f"{user}.password"
        return path if path.exists() else write_private(path, secrets.token_urlsafe(24))

    def settings(self, identity: BrokerIdentity) -> dict[str, str]:
        """The lines of `server.properties` that secure a broker.

        Args:
            identity: `port` becomes the one for SCRAM.
        """
        ports = {"SCRAM": identity.port, "MTLS": identity.mtls_port, "CONTROLLER": identity.controller_port}
        return {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
            "listener.security.protocol.map": "SCRAM:SASL_SSL,MTLS:SSL,CONTROLLER:SSL",
            "inter.broker.listener.name": "MTLS",
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.controller.ssl.client.auth": "required",
            "listener.name.scram.scram-sha-512.sasl.jaas.config": _SCRAM_MODULE,
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificate_file(_BROKER)),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority_file),
            "ssl.principal.mapping.rules": _NAMES_OF_CERTIFICATES,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{_BROKER};User:{ADMIN}",
            "allow.everyone.if.no.acl.found": "false",
        }

    def scram_properties(self, user: str) -> dict[str, str]:
        """Client properties, but for the address, of a user with a password; librdkafka's names."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority_file),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": self.password_file(user).read_text(),
        }

    def mtls_properties(self, user: str) -> dict[str, str]:
        """Client properties, but for the address, of a user with a certificate; librdkafka's names."""
        certificate = str(self.certificate_file(user))
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.authority_file),
            "ssl.certificate.location": certificate,
            "ssl.key.location": certificate,
        }
