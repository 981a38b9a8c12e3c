"""A digest of what a schema says, whatever id, version and spacing a registry has given it.

Two registries that hold the same schema give the same digest, so a copy's schema can be compared with its source's
without a word of whoever has mapped the ids.
"""

from __future__ import annotations

import json

from k2k_assets.core.digest import digest
from k2k_assets.registry.schemas import Registry, Schema


def schema_digest(registry: Registry, schema_id: int) -> str:
    """The digest of a schema and of all that it refers to.

    Args:
        registry: Where it is.
        schema_id: Its id there.

    Raises:
        SchemaNotFound: The registry does not have it.
        RegistryUnreachable: It does not answer.
    """
    return _digest(registry, registry.schema(schema_id))


def _digest(registry: Registry, schema: Schema) -> str:
    words = [schema.kind, _canonical(schema)]
    for reference in sorted(schema.references):
        words += [reference.name, _digest(registry, registry.version(reference.subject, reference.version))]
    return digest(json.dumps(words))


def _canonical(schema: Schema) -> str:
    if schema.kind == "PROTOBUF":
        return "".join(schema.text.split())  # no JSON; a registry may set it anew
    try:
        return json.dumps(json.loads(schema.text), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return schema.text
