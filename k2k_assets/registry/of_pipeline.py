"""The registries of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from k2k_assets.core.errors import Refused
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.clients.client_properties import ClusterRole
from k2k_assets.pipeline.clients.registry_properties import header_faults, translate_registry
from k2k_assets.pipeline.sections.schema_mapping import Facet, facets_of
from k2k_assets.registry.client import ConfluentRegistry
from k2k_assets.registry.kept_schemas import KeptSchemas
from k2k_assets.registry.schema_ids import SchemaIds


def open_registry(pipeline: Pipeline, cluster: ClusterRole) -> ConfluentRegistry:
    """One of them; nothing is asked of it yet.

    Raises:
        Refused: Its settings cannot be used. They were not looked at with the file where it maps no ids any more, and
            only verifies what was copied before.
    """
    section = pipeline.registry(cluster)
    found = translate_registry(section.config)
    for place, faults in (("config", found.faults), ("headers", header_faults(section.headers))):
        for key, why in faults:
            raise Refused(f'{cluster}.registry.{place}."{key}": {why}')
    return ConfluentRegistry(
        cluster,
        found.client,
        section.headers,
        registers=found.registers,
        normalizes=found.normalizes,
    )


def open_kept_schemas(pipeline: Pipeline) -> KeptSchemas | None:
    """How the target keeps the source's schemas, if it normalizes them; None: as they are."""
    if not translate_registry(pipeline.registry("target").config).normalizes:
        return None
    return KeptSchemas(open_registry(pipeline, "target"), pipeline.routing.target_if_any)


def open_schema_ids(pipeline: Pipeline) -> SchemaIds:
    """What finds the target's ids of schemas."""
    source, target = open_registry(pipeline, "source"), open_registry(pipeline, "target")
    return SchemaIds(source, target, pipeline.schema_mapping.supported_types)


def facets_with_schemas(pipeline: Pipeline) -> Callable[[str], Mapping[Facet, bool]]:
    """The facets of a source topic's records that have schema ids, and whether a rule of the file says so."""
    rules, mapping = pipeline.schema_rules, pipeline.schema_mapping
    return lambda topic: {facet: mapping.is_certain(topic, facet) for facet in facets_of(rules, topic)}
