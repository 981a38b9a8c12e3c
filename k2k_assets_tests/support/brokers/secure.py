"""Users and permissions on the secured clusters, and how clients authenticate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import Broker
from k2k_assets.sandbox.principals import REPLICATOR
from k2k_assets_tests.support.brokers import kafka
from k2k_assets_tests.support.brokers.kafka import unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline


def admin(broker: Broker) -> Any:
    """An admin client of somebody who may do everything."""
    return kafka.admin(broker.mtls_servers)


def scram(broker: Broker, user: str = REPLICATOR) -> dict[str, str]:
    """Client properties of a user with a password, the password from its file."""
    security = broker.security
    return {
        "bootstrap.servers": broker.servers,
        **security.scram_properties(user),
        "sasl.password": f"${{file:{security.password_file(user)}}}",
    }


def mtls(broker: Broker, user: str = REPLICATOR) -> dict[str, str]:
    """Client properties of a user with a certificate."""
    return {"bootstrap.servers": broker.mtls_servers, **broker.security.mtls_properties(user)}


def pem_texts(broker: Broker, user: str = REPLICATOR) -> dict[str, str]:
    """As `mtls`, by Java's names and with PEM texts, each from a file that a variable names."""
    security = broker.security
    certificate = security.certificate_file(user).read_text()
    key, end, chain = certificate.partition("-----END PRIVATE KEY-----\n")
    texts = {"key": key + end, "chain": chain, "ca": security.authority_file.read_text()}
    paths = {name: security.directory / f"{user}-{name}.pem" for name in texts}
    for name, text in texts.items():
        paths[name].touch(0o600)
        paths[name].write_text(text)
    return {
        "bootstrap.servers": broker.mtls_servers,
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": f"${{file:{paths['key']}}}",
        "ssl.keystore.certificate.chain": f"${{file:string:{paths['chain']}}}",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": f"${{file:{paths['ca']}}}",
    }


def write_secure_pipeline(
    directory: Path,
    source: dict[str, str],
    target: dict[str, str],
    topics: str | list[str],
    group: str | None = None,
    **rest: Any,
) -> Path:
    """As `write_pipeline`, with client properties in the place of addresses."""
    return write_pipeline(
        directory, "", "", topics,
        source={"kafka": {"common": source, "consumer": {"group.id": group or unique("k2k.group")}}},
        target={"kafka": {"common": target}},
        **rest,
    )  # fmt: skip


def secure_pipeline(*arguments: Any, **rest: Any) -> Pipeline:
    """As `write_secure_pipeline`, loaded."""
    return load_pipeline(write_secure_pipeline(*arguments, **rest))


def secrets_of(*brokers: Broker) -> dict[str, bytes]:
    """Every password and private key of the clusters, by the file that holds it; of a key, its longest line."""
    found = {}
    for broker in brokers:
        for path in broker.security.directory.iterdir():
            if path.suffix == ".password":
                found[str(path)] = path.read_bytes()
            elif "PRIVATE KEY" in (text := path.read_text()):
                found[str(path)] = max(text.split("-----END")[0].splitlines(), key=len).encode()
    return found
