"""Which client properties MirrorMaker 2 gives to all clients of a cluster."""

from __future__ import annotations


def is_of_every_client(name: str) -> bool:
    """Whether a property is for consumers, producers and admin clients: addresses, TLS and SASL."""
    return name in ("bootstrap.servers", "security.protocol") or name.startswith(("ssl.", "sasl."))
