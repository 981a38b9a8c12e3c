"""`K2KPipelineComponent`: a pipeline as a component of a Dagster project, which `dg` finds and scaffolds."""

# Without `from __future__ import annotations`: Dagster wants the fields' classes, not their names.

import logging
from pathlib import Path
from typing import Annotated, Any, NewType

import dagster as dg
from dagster.components.resolved.errors import ResolutionException
from dagster.components.utils.defs_state import DefsStateConfig, DefsStateConfigArgs, ResolvedDefsStateConfig
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver
from dagster_shared.serdes.objects.models.defs_state_info import DefsStateManagementType

from k2k_assets import discovery
from k2k_assets.core.errors import ClusterUnreachable, K2KError
from k2k_assets.discovery import Discovery
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.orchestration.hooks import AssetProps, Copy, CopyResults, Hooks
from k2k_assets.orchestration.maintenance.job import with_maintenance
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.pipeline_definitions import pipeline_definitions
from k2k_assets.orchestration.project.scaffolder import K2KPipelineScaffolder
from k2k_assets.orchestration.remembered import discovery_in, remembered_definitions, state_of
from k2k_assets.pipeline import Pipeline, load_pipeline, load_pipeline_in

# Dagster accepts a pydantic model as the type of a field only if it can resolve all of its fields.
GivenPipeline = NewType("GivenPipeline", Pipeline)

_log = logging.getLogger(__name__)


def _resolve_pipeline(context: dg.ResolutionContext, value: str | list[str] | dict[str, Any]) -> Pipeline:
    """The pipeline: from the named file or files, or from `defs.yaml` itself."""
    try:
        if isinstance(value, dict):
            return _inline(context)
        names = [value] if isinstance(value, str) else value
        return load_pipeline([context.resolve_source_relative_path(str(context.resolve_value(name))) for name in names])
    except K2KError as error:
        raise ResolutionException(str(error)) from None


def _inline(context: dg.ResolutionContext) -> Pipeline:
    """Reads the file again, because Dagster reads YAML 1.1, where `10:30` is 630, and keeps no line numbers."""
    tree = context.source_position_tree
    if tree is None:
        raise K2KError("a pipeline without a file of its own must be in defs.yaml")
    document = tree.position
    return load_pipeline_in(
        document.filename, tuple(context.path), range(document.start.line, document.end.line + (document.end.col > 1))
    )


_HOW_ASSETS_LOOK = TranslationFnResolver[AssetProps](template_vars_for_translation_fn=lambda props: {"props": props})
# Dagster's resolver reads no docstring, and shows only this text in the UI and in editors.
_HOW_ASSETS_LOOK.description = (
    "How assets look: group, owners, tags and so on. `props` describes an asset: its `pipeline`, its `kind` "
    "(source, topic, commit_log, offset_mappings, consumer_group, group_positions) and its `name`. Keys cannot be "
    "changed."
)


@dg.scaffold_with(K2KPipelineScaffolder)
class K2KPipelineComponent(dg.StateBackedComponent, dg.Model, dg.Resolvable):
    """A Kafka-to-Kafka pipeline: copied topics, commit log, offset mappings and consumer groups as assets.

    `dg scaffold defs k2k_assets.K2KPipelineComponent orders` makes a folder with a `defs.yaml` and a pipeline file. The
    component sets no executor, so your own stays as it is; only its own jobs run in one process each.
    """

    pipeline: Annotated[
        GivenPipeline,
        dg.Resolver(
            _resolve_pipeline,
            model_field_type=str | list[str] | dict[str, Any],
            inject_before_resolve=False,
            description="The pipeline file, relative to defs.yaml; several are one pipeline, later files over earlier "
            "ones. Or the pipeline itself; in it `${...}` is a variable, and `{{ ... }}` is text.",
            examples=["pipeline.yaml", ["base.yaml", "production.yaml"]],
        ),
    ]
    translation: Annotated[TranslationFn[AssetProps] | None, _HOW_ASSETS_LOOK] = None
    # By default each code server uses the state in `K2K_HOME` when it loads.
    defs_state: ResolvedDefsStateConfig = DefsStateConfigArgs.legacy_code_server_snapshots()

    # Pydantic's default configuration would treat a private model's fields as changes to be copied.
    model_config = {"extra": "forbid", "arbitrary_types_allowed": True}

    def get_asset_spec(self, props: AssetProps) -> dg.AssetSpec:
        """Returns the spec of an asset; override it to change how assets look.

        Args:
            props: Description of the asset, with its default spec.

        Returns:
            A spec with the same key.
        """
        return props.spec

    def execute(self, context: dg.AssetExecutionContext, copy: Copy) -> CopyResults:
        """Copies topics; override it to add work before or after. Runs of the sync job, an hour long, call it too.

        Args:
            context: Context of the step.
            copy: Copies, and yields a result for each topic.

        Yields:
            The results of `copy`.
        """
        yield from copy()

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """Where Dagster keeps the discovery."""
        return DefsStateConfig.from_args(self.defs_state, default_key=f"{type(self).__name__}[{self.pipeline.name}]")

    def write_state_to_path(self, state_path: Path) -> None:
        """Discovers topics and groups on the clusters, saves them in `K2K_HOME`, and writes them as JSON.

        Raises:
            ClusterUnreachable: A cluster does not answer, and there is no earlier state.
        """
        state_path.write_text(state_of(self._discovered()), encoding="utf-8")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions, from the state in `K2K_HOME` or from the project's own place for state."""
        if self.defs_state_config.management_type is DefsStateManagementType.LEGACY_CODE_SERVER_SNAPSHOTS:
            definitions = remembered_definitions(self.pipeline, hooks=self._hooks())
        else:
            definitions = super().build_defs(context)
        return with_maintenance(definitions, AssetNames(self.pipeline.name))

    def build_defs_from_state(self, context: dg.ComponentLoadContext, state_path: Path | None) -> dg.Definitions:
        """The definitions from the pipeline and its state; without state, a single asset represents the pattern."""
        found = discovery_in(state_path.read_text(encoding="utf-8")) if state_path else None
        return pipeline_definitions(self.pipeline, found, hooks=self._hooks())

    def _hooks(self) -> Hooks:
        return Hooks(self._translated, self.execute)

    def _translated(self, props: AssetProps) -> dg.AssetSpec:
        spec = self.get_asset_spec(props)
        return self.translation(spec, props) if self.translation else spec

    def _discovered(self) -> Discovery:
        try:
            with both_clusters(self.pipeline) as (source, target):
                return discovery.refresh(self.pipeline, source, target)
        except ClusterUnreachable as error:
            remembered = discovery.load(self.pipeline.name)
            if remembered is None:
                raise
            _log.warning("pipeline %s keeps its earlier state: %s", self.pipeline.name, error)
            return remembered
