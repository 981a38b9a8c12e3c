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
from k2k_assets.orchestration.pipeline_definitions import pipeline_definitions
from k2k_assets.orchestration.project.scaffolder import K2KPipelineScaffolder
from k2k_assets.orchestration.remembered import discovery_in, remembered_definitions, state_of
from k2k_assets.pipeline import Pipeline, load_pipeline, load_pipeline_in

# As the type of a field Dagster takes no model of pydantic's that is not made of fields that it can resolve itself.
GivenPipeline = NewType("GivenPipeline", Pipeline)

_log = logging.getLogger(__name__)


def _resolve_pipeline(context: dg.ResolutionContext, value: str | list[str] | dict[str, Any]) -> Pipeline:
    """The pipeline: of the file or files that are named, or the one that stands in `defs.yaml` itself."""
    try:
        if isinstance(value, dict):
            return _inline(context)
        names = [value] if isinstance(value, str) else value
        return load_pipeline([context.resolve_source_relative_path(str(context.resolve_value(name))) for name in names])
    except K2KError as error:
        raise ResolutionException(str(error)) from None


def _inline(context: dg.ResolutionContext) -> Pipeline:
    """From the file itself: what Dagster has read of it follows YAML 1.1, where `10:30` is 630, and knows no lines."""
    tree = context.source_position_tree
    if tree is None:
        raise K2KError("a pipeline that is not in a file of its own has to stand in defs.yaml")
    document = tree.position
    return load_pipeline_in(
        document.filename, tuple(context.path), range(document.start.line, document.end.line + (document.end.col > 1))
    )


_HOW_ASSETS_LOOK = TranslationFnResolver[AssetProps](template_vars_for_translation_fn=lambda props: {"props": props})
# Dagster's resolver takes none, and shows no other in the UI and in editors.
_HOW_ASSETS_LOOK.description = (
    "How assets look: group, owners, tags and so on. `props` is what an asset stands for: its `pipeline`, its `kind` "
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
    # By default each code server, when it is loaded, takes what `K2K_HOME` remembers.
    defs_state: ResolvedDefsStateConfig = DefsStateConfigArgs.legacy_code_server_snapshots()

    # Pydantic's own would take a private model's fields for changes to be copied.
    model_config = {"extra": "forbid", "arbitrary_types_allowed": True}

    def get_asset_spec(self, props: AssetProps) -> dg.AssetSpec:
        """How an asset looks; to be overridden.

        Args:
            props: What it stands for, and how it looks by default.

        Returns:
            A spec with the same key.
        """
        return props.spec

    def execute(self, context: dg.AssetExecutionContext, copy: Copy) -> CopyResults:
        """Copies topics; to be overridden. Also a run of the sync job comes here, which copies for an hour.

        Args:
            context: Of the step.
            copy: Copies, and yields a result for each topic.

        Yields:
            What `copy` yields.
        """
        yield from copy()

    @property
    def defs_state_config(self) -> DefsStateConfig:
        """Where Dagster keeps what was discovered."""
        return DefsStateConfig.from_args(self.defs_state, default_key=f"{type(self).__name__}[{self.pipeline.name}]")

    def write_state_to_path(self, state_path: Path) -> None:
        """Asks the clusters what they hold, remembers it in `K2K_HOME`, and writes it as JSON.

        Raises:
            ClusterUnreachable: One does not answer, and nothing is remembered.
        """
        state_path.write_text(state_of(self._discovered()), encoding="utf-8")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions: from what `K2K_HOME` remembers, or from the state that the project keeps elsewhere."""
        if self.defs_state_config.management_type is DefsStateManagementType.LEGACY_CODE_SERVER_SNAPSHOTS:
            return remembered_definitions(self.pipeline, hooks=self._hooks())
        return super().build_defs(context)

    def build_defs_from_state(self, context: dg.ComponentLoadContext, state_path: Path | None) -> dg.Definitions:
        """The definitions, from the pipeline and its state alone; without one, an asset stands for the pattern."""
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
            _log.warning("the state of pipeline %s is what was discovered before: %s", self.pipeline.name, error)
            return remembered
