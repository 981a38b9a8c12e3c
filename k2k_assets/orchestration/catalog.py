"""Adds to every asset of a pipeline what Dagster's catalog shows: owners, tags, and the pipeline file."""

from __future__ import annotations

import re
from typing import Any

import dagster as dg

from k2k_assets.discovery import Discovery
from k2k_assets.pipeline import Pipeline

_TAG_VALUE = re.compile(r"[A-Za-z0-9_.-]{1,63}")


class Catalog:
    """Adds the common properties of a pipeline's assets to each asset.

    Args:
        pipeline: The pipeline.
        discovery: The discovery with its clusters; None before the first one.
    """

    def __init__(self, pipeline: Pipeline, discovery: Discovery | None) -> None:
        self._owners = list(pipeline.owners)
        self._tags = dict(_tags(pipeline, discovery))
        files: list[dg.LocalFileCodeReference | dg.UrlCodeReference] = [
            dg.LocalFileCodeReference(file_path=str(file), label="pipeline file") for file in pipeline.files
        ]
        self._metadata: dict[str, dg.MetadataValue[Any]] = {}
        if files:
            self._metadata["dagster/code_references"] = dg.CodeReferencesMetadataValue(code_references=files)

    def describe(self, assets: dg.AssetsDefinition) -> dg.AssetsDefinition:
        """The assets, each with the common properties."""
        return assets.map_asset_specs(self._described)

    def _described(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        return spec.merge_attributes(owners=self._owners, tags=self._tags, metadata=self._metadata)


def _tags(pipeline: Pipeline, discovery: Discovery | None) -> dict[str, str]:
    """The tags; Dagster accepts only identifiers as values."""
    tags = {
        "k2k/pipeline": pipeline.name,
        "k2k/delivery": "exactly-once" if pipeline.features.exactly_once else "at-least-once",
    }
    if discovery:
        tags |= {"k2k/source_cluster": discovery.source_cluster, "k2k/target_cluster": discovery.target_cluster}
    return {key: value for key, value in tags.items() if _TAG_VALUE.fullmatch(value)}
