"""The settings that decide how a copy differs from its source record. Pure.

Each mapping record names them by a fingerprint; the assignment topic and the index keep the settings behind each
fingerprint. So checks judge a copy by the settings of its own time, even after the pipeline file was changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

from k2k_assets.core import json_codec
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.sections.added_headers import AddedHeader, AddedHeaders
from k2k_assets.pipeline.sections.bidirectional import Marker
from k2k_assets.pipeline.sections.schema_mapping import Facet, FacetRule, facets_of

Isolation = Literal["read_committed", "read_uncommitted"]

# Fields that are left out of a document while they are empty.
_OPTIONAL = frozenset({"schemas", "added", "marker", "transform"})


class Reading(NamedTuple):
    """The settings that decide which records were copied, and what became of their keys and values.

    Attributes:
        isolation: `isolation.level` of the source consumer.
        schemas: As in `CopySettings`.
        transform: As in `CopySettings`.
    """

    isolation: Isolation
    schemas: tuple[FacetRule, ...] = ()
    transform: str = ""


@dataclass(frozen=True, slots=True)
class CopySettings:
    """The settings that decide how a copy differs from its source record.

    Attributes:
        isolation: `isolation.level` of the source consumer.
        headers: Whether headers were copied.
        timestamps: Whether timestamps were copied.
        alone: Whether only copies, each once, can lie between two copies: the mode is exactly-once, and a foreign
            writer stops the partition. False where several source partitions feed one target partition, because
            nobody can tell foreign records there (`shared_target`).
        schemas: The rules by which schema ids of keys and values were mapped; empty if none were.
        added: The headers that each copy got behind those of its source record.
        marker: The header that marked copies, and by which records were left out; None if there was none.
        transform: The rules by which records were left out or changed, as `Pipeline.transform_text`; empty if there
            were none.
    """

    isolation: Isolation
    headers: bool
    timestamps: bool
    alone: bool
    schemas: tuple[FacetRule, ...] = ()
    added: AddedHeaders = ()
    marker: Marker | None = None
    transform: str = ""

    @classmethod
    def of(cls, pipeline: Pipeline) -> CopySettings:
        """The present settings of a pipeline."""
        level = pipeline.client_properties("source", "consumer").get("isolation.level", "read_committed")
        return cls(
            "read_uncommitted" if level == "read_uncommitted" else "read_committed",
            pipeline.features.header_replication,
            pipeline.features.keep_record_creation_timestamp,
            pipeline.features.exactly_once
            and pipeline.error_handling.on_foreign_writer != "ignore"
            and not pipeline.shares_targets,
            pipeline.schema_rules,
            pipeline.added_headers,
            pipeline.marker,
            pipeline.transform_text,
        )

    @property
    def shared_target(self) -> CopySettings:
        """The same settings, for a plan in which several source partitions feed one target partition."""
        return replace(self, alone=False)

    @property
    def reading(self) -> Reading:
        """What of them decides how keys and values are compared."""
        return Reading(self.isolation, self.schemas, self.transform)

    @property
    def by_fingerprint(self) -> dict[str, CopySettings]:
        """These settings under both fingerprints that mapping records may name: without and with a shared target."""
        return {each.fingerprint: each for each in (self, self.shared_target)}

    @property
    def fingerprint(self) -> str:
        """Short name of these settings, the same in every process and in every release that knows the same fields."""
        return hashlib.blake2b(json_codec.encode(self.document()), digest_size=4).hexdigest()

    def document(self) -> dict[str, Any]:
        """As a JSON document. What is not in use is not in it: older releases can read it, and named it as it is."""
        document = asdict(self)
        for name in _OPTIONAL:
            if not document[name]:
                del document[name]
        return document

    @classmethod
    def parse(cls, document: dict[str, Any]) -> CopySettings | None:
        """Reads settings from a JSON document; None if a newer release wrote it with fields that are unknown here."""
        match document:
            case {
                "isolation": "read_committed" | "read_uncommitted" as isolation,
                "headers": bool(headers),
                "timestamps": bool(timestamps),
                "alone": bool(alone),
                **more,
            } if more.keys() <= _OPTIONAL:
                schemas, added = _rules(more.get("schemas", [])), _added(more.get("added", []))
                marker = Marker.parse(more["marker"]) if "marker" in more else None
                transform = more.get("transform", "")
                known = schemas is not None and added is not None and (marker or "marker" not in more)
                if known and isinstance(transform, str):
                    return cls(isolation, headers, timestamps, alone, schemas or (), added or (), marker, transform)
        return None

    def facets(self, topic: str) -> frozenset[Facet]:
        """The facets of a source topic's records whose schema ids were mapped."""
        return facets_of(self.schemas, topic)


def all_marked(noted: Collection[Mapping[str, Any]], marker: Marker | None) -> bool:
    """Whether a group has copied under no other marker.

    Args:
        noted: All settings under which it has copied, as documents. Without any nobody knows.
        marker: The marker; None for none.
    """
    return bool(noted) and all(Marker.parse(document.get("marker")) == marker for document in noted)


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


def _added(found: object) -> AddedHeaders | None:
    if not isinstance(found, list | tuple):
        return None
    headers = tuple(header for each in found if (header := AddedHeader.parse(each)))
    return headers if len(headers) == len(found) else None


def shared(settings: Collection[CopySettings]) -> CopySettings | None:
    """The settings that hold for records copied under any of the given ones; None if they read or change in two ways.

    Where records were left out in two ways, the settings do not tell which: `marker` is None then.
    """
    if len({each.reading for each in settings}) != 1:
        return None
    any_one = next(iter(settings))
    # Headers are compared as a whole, so they say nothing where they were made in two ways.
    same_headers = len({(each.headers, each.added, each.marker) for each in settings}) == 1
    return CopySettings(
        isolation=any_one.isolation,
        headers=same_headers and any_one.headers,
        timestamps=all(each.timestamps for each in settings),
        alone=all(each.alone for each in settings),
        schemas=any_one.schemas,
        added=any_one.added if same_headers else (),
        marker=any_one.marker if same_headers else None,
        transform=any_one.transform,
    )
