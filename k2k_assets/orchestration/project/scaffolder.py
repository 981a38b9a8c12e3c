"""`dg scaffold defs k2k_assets.K2KPipelineComponent`: writes `defs.yaml` and an exactly-once pipeline file."""

from __future__ import annotations

import click
import dagster as dg
from dagster.components.component_scaffolding import scaffold_component
from pydantic import BaseModel, Field

from k2k_assets.core.atomic_file import write_atomically
from k2k_assets.pipeline.first_file import first_file

_FILE = "pipeline.yaml"


class K2KPipelineParams(BaseModel):
    """Options of `dg scaffold defs`."""

    source: str = Field(default="localhost:9092", description="Bootstrap address of the source cluster.")
    target: str = Field(default="localhost:9093", description="Bootstrap address of the target cluster.")
    topics: str = Field(default=".*", description="Which topics: a regular expression for whole names.")


class K2KPipelineScaffolder(dg.Scaffolder[K2KPipelineParams]):
    """Writes the files."""

    @classmethod
    def get_scaffold_params(cls) -> type[K2KPipelineParams]:
        """The options."""
        return K2KPipelineParams

    def scaffold(self, request: dg.ScaffoldRequest[K2KPipelineParams]) -> None:
        """Writes the files into the new folder; an existing pipeline file stays.

        Raises:
            UsageError: The requested format is not YAML.
        """
        if request.scaffold_format != "yaml":
            raise click.UsageError("in Python, k2k_assets.build_k2k_assets makes the definitions of a pipeline file")
        file = request.target_path / _FILE
        if not file.exists():
            chosen = request.params
            name = request.target_path.name
            note = "`dg scaffold defs` wrote it; check it against both clusters:  k2k validate -f FILE --connect"
            write_atomically(file, first_file(name, chosen.source, chosen.target, chosen.topics, note))
        scaffold_component(request, {"pipeline": _FILE})
