"""A digest of what a schema says, whatever id, version and spacing a registry has given it.

Two registries that hold the same schema give the same digest, so a copy's schema can be compared with its source's
without a word of whoever has mapped the ids.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from k2k_assets.core.digest import digest
from k2k_assets.registry.schemas import Registry, Schema


class SchemaDigest(NamedTuple):
    """The digest of a schema and of all that it refers to.

    Attributes:
        text: Of what it says.
        contract: Of each word of its rules, and of the metadata that they go by (`Schema.contract`).
    """

    text: str
    contract: frozenset[str] = frozenset()

    def is_kept_by(self, copy: SchemaDigest) -> bool:
        """Whether a copy's schema is the same, with at least these rules: a target may have more of its own."""
        return self.text == copy.text and self.contract <= copy.contract


def schema_digest(registry: Registry, schema_id: int) -> SchemaDigest:
    """The digest of a schema and of all that it refers to.

    Args:
        registry: Where it is.
        schema_id: Its id there.

    Raises:
        SchemaNotFound: The registry does not have it.
        RegistryUnreachable: It does not answer.
    """
    contract: set[str] = set()
    text = _digest(registry, registry.schema(schema_id), contract)
    return SchemaDigest(text, frozenset(contract))


def _digest(registry: Registry, schema: Schema, contract: set[str], at: str = "") -> str:
    """Of the text; adds the contracts on the way.

    Args:
        registry: Where it is.
        schema: The schema.
        contract: Gets the digests of their words.
        at: The names by which what is referred to is come to.
    """
    contract.update(digest(f"{at}{word}") for word in schema.contract)
    words = [schema.kind, _canonical(schema)]
    for reference in sorted(schema.references):
        other = registry.version(reference.subject, reference.version)
        words += [reference.name, _digest(registry, other, contract, f"{at}{reference.name}:")]
    return digest(json.dumps(words))


def _canonical(schema: Schema) -> str:
    if schema.kind == "PROTOBUF":
        return "".join(schema.text.split())  # no JSON; a registry may set it anew
    try:
        return json.dumps(json.loads(schema.text), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return schema.text
