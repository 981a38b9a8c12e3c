"""The settings under which records were copied, as far as they decide what a copy looks like: pure.

Each mapping record names them by a fingerprint; the assignment topic and the index keep what the fingerprint stands
for. So a copy is judged by the settings of its own time, also after the pipeline's file was changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from k2k_assets.core import json_codec
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.schema_mapping import Facet, FacetRule, facets_of

Isolation = Literal["read_committed", "read_uncommitted"]


@dataclass(frozen=True, slots=True)
class CopySettings:
    """What decides how a copy differs from its source record.

    Attributes:
        isolation: `isolation.level` of the source consumer.
        headers: Whether headers were copied.
        timestamps: Whether timestamps were.
        alone: Whether nobody but the copy can have written between two of its records, and each of them once: exactly
            once, and a foreign writer stops it. Where several source partitions feed one target partition nobody can
            tell foreign records, so nothing stops it: see `shared_target`.
        schemas: Which facets of the records of which topics had their schema ids mapped; empty: none.
    """

    isolation: Isolation
    headers: bool
    timestamps: bool
    alone: bool
    schemas: tuple[FacetRule, ...] = ()

    @classmethod
    def of(cls, pipeline: Pipeline) -> CopySettings:
        """Those of a pipeline as it is now."""
        level = pipeline.client_properties("source", "consumer").get("isolation.level", "read_committed")
        return cls(
            "read_uncommitted" if level == "read_uncommitted" else "read_committed",
            pipeline.features.header_replication,
            pipeline.features.keep_record_creation_timestamp,
            pipeline.features.exactly_once and pipeline.error_handling.on_foreign_writer != "ignore",
            pipeline.schema_rules,
        )

    @property
    def shared_target(self) -> CopySettings:
        """The same, for copies of a plan by which several source partitions feed one target partition."""
        return replace(self, alone=False)

    @property
    def by_fingerprint(self) -> dict[str, CopySettings]:
        """What mapping records name that were copied under them: of either kind of plan."""
        return {each.fingerprint: each for each in (self, self.shared_target)}

    @property
    def fingerprint(self) -> str:
        """Names them: the same in every process and release that knows the same settings."""
        return hashlib.blake2b(json_codec.encode(self.document()), digest_size=4).hexdigest()

    def document(self) -> dict[str, Any]:
        """As a JSON document. What is not in use is not in it: older releases can read it, and named it as it is."""
        document = asdict(self)
        if not self.schemas:
            del document["schemas"]
        return document

    @classmethod
    def parse(cls, document: dict[str, Any]) -> CopySettings | None:
        """From a JSON document; None if a newer release wrote it, which knows of more."""
        match document:
            case {
                "isolation": "read_committed" | "read_uncommitted" as isolation,
                "headers": bool(headers),
                "timestamps": bool(timestamps),
                "alone": bool(alone),
                **more,
            } if more.keys() <= {"schemas"}:
                schemas = _rules(more.get("schemas", []))
                return None if schemas is None else cls(isolation, headers, timestamps, alone, schemas)
        return None

    def facets(self, topic: str) -> frozenset[Facet]:
        """The facets of a source topic's records whose schema ids were mapped."""
        return facets_of(self.schemas, topic)


def _rules(found: object) -> tuple[FacetRule, ...] | None:
    if not isinstance(found, list | tuple):
        return None
    rules = []
    for each in found:
        match each:
            case [str(pattern), bool(key), bool(value)]:
                rules.append(FacetRule(pattern, key, value))
            case _:
                return None
    return tuple(rules)


def shared(settings: Collection[CopySettings]) -> CopySettings | None:
    """What can be compared of records that were copied under any of some settings; None: nothing for certain."""
    if len({(each.isolation, each.schemas) for each in settings}) != 1:
        return None
    return CopySettings(
        isolation=next(iter(settings)).isolation,
        headers=all(each.headers for each in settings),
        timestamps=all(each.timestamps for each in settings),
        alone=all(each.alone for each in settings),
        schemas=next(iter(settings)).schemas,
    )
