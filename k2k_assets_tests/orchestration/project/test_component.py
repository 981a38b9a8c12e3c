"""`K2KPipelineComponent` in a folder of definitions: its pipeline, its state, and a project's changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext, DefinitionsLoadType
from dagster._core.definitions.repository_definition import RepositoryLoadData
from dagster.components.core.component_tree import ComponentTree, ComponentTreeException
from dagster.components.resolved.errors import ResolutionException
from dagster.components.testing.utils import DefsFolderSandbox, create_defs_folder_sandbox

from k2k_assets import K2KPipelineComponent, discovery
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.discovery import DiscoveredTopic, Discovery
from k2k_assets.kafka import connection
from k2k_assets.orchestration.hooks import AssetProps, Copy, CopyResults
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.pipeline import load_pipeline
from k2k_assets.pipeline.first_file import first_file

# Nothing listens there, so a request to a broker would fail.
NOBODY = "127.0.0.1:1"
NAMES = AssetNames("orders")
_HERE = __name__
_INLINE = """\
type: k2k_assets.K2KPipelineComponent
attributes:
  pipeline:
    name: on
    source: {{ kafka: {{ common: {{ "bootstrap.servers": "127.0.0.1:1" }}, consumer: {{ "group.id": "k2k.on" }} }} }}
    target: {{ kafka: {{ common: {{ "bootstrap.servers": "127.0.0.1:1" }} }} }}
    replication:
      - source: {{ topic: [0x10, '{topic}'] }}
      - sink: {{ topic: source, partition: source }}
"""


class Loud(K2KPipelineComponent):
    """What a project may do."""

    volume: int = 1

    def get_asset_spec(self, props: AssetProps) -> dg.AssetSpec:
        spec = super().get_asset_spec(props)
        return spec.merge_attributes(tags={"volume": str(self.volume), "kind": props.kind, "of": props.pipeline})

    def execute(self, context: dg.AssetExecutionContext, copy: Copy) -> CopyResults:
        context.log.info("loud before")
        for key in context.selected_asset_keys:
            yield dg.MaterializeResult(asset_key=key, metadata={"copied": False})


class Renaming(K2KPipelineComponent):
    """What a project may not do."""

    def get_asset_spec(self, props: AssetProps) -> dg.AssetSpec:
        return props.spec.replace_attributes(key=props.spec.key.with_prefix("shop"))


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DefsFolderSandbox]:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    with create_defs_folder_sandbox() as made:
        yield made


def _write(sandbox: DefsFolderSandbox, defs_yaml: str = "", topics: str = "orders[.].*") -> Path:
    folder = sandbox.defs_folder_path / "orders"
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(first_file("orders", NOBODY, NOBODY, topics, "note"))
    (folder / "defs.yaml").write_text(defs_yaml or _defs_yaml())
    return folder


def _defs_yaml(kind: str = "k2k_assets.K2KPipelineComponent", more: str = "") -> str:
    return f"type: {kind}\nattributes:\n  pipeline: pipeline.yaml\n{more}"


def _discover(*topics: str) -> None:
    found = {topic: DiscoveredTopic(1, topic) for topic in topics}
    discovery.save(Discovery("orders", 1, "source-id", "target-id", found))


def _loaded(sandbox: DefsFolderSandbox) -> dg.Definitions:
    with sandbox.build_all_defs() as definitions:
        return definitions


def _refusal(sandbox: DefsFolderSandbox) -> BaseException | None:
    """What is told beside the place of the component."""
    with pytest.raises(ComponentTreeException) as refused:
        _loaded(sandbox)
    return refused.value.__cause__


def _keys(sandbox: DefsFolderSandbox) -> set[dg.AssetKey]:
    return {*_loaded(sandbox).resolve_asset_graph().get_all_asset_keys()}


def test_it_shows_what_was_discovered_and_asks_nobody(sandbox: DefsFolderSandbox) -> None:
    _write(sandbox)
    assert NAMES.undiscovered_key("orders[.].*") in _keys(sandbox)
    _discover("orders.eu", "orders.us")
    definitions = _loaded(sandbox)
    keys = definitions.resolve_asset_graph().get_all_asset_keys()
    assert {NAMES.topic_key("orders.eu"), NAMES.topic_key("orders.us"), NAMES.source_key("orders.us")} <= keys
    assert NAMES.undiscovered_key("orders[.].*") not in keys
    executors = {job.name: job.executor_def.name for job in definitions.get_repository_def().get_all_jobs()}
    assert executors == {
        **dict.fromkeys((NAMES.job, NAMES.sync_job, NAMES.mappings_job, NAMES.offset_sync_job), "in_process"),
        NAMES.maintenance.job: "in_process",
        "__ASSET_JOB": "multi_or_in_process_executor",
    }


def test_a_run_sees_what_its_code_location_was_loaded_with(sandbox: DefsFolderSandbox) -> None:
    _write(sandbox)
    _discover("orders.eu")
    loading = DefinitionsLoadContext(DefinitionsLoadType.INITIALIZATION)
    with DefinitionsLoadContext.scoped(loading):
        before = _keys(sandbox)
    _discover("orders.us")
    data = RepositoryLoadData(
        cacheable_asset_data={},
        reconstruction_metadata=loading.get_pending_reconstruction_metadata(),
        defs_state_info=loading.accessed_defs_state_info,
    )
    with DefinitionsLoadContext.scoped(DefinitionsLoadContext(DefinitionsLoadType.RECONSTRUCTION, data)):
        assert _keys(sandbox) == before
    assert _keys(sandbox) != before


# -- which pipeline ---------------------------------------------------------------------------------------------------


def test_several_files_are_one_pipeline(sandbox: DefsFolderSandbox) -> None:
    folder = _write(sandbox, _defs_yaml().replace("pipeline.yaml", "[pipeline.yaml, production.yaml]"))
    (folder / "production.yaml").write_text("name: production\n")
    assert AssetNames("production").commit_log_key in _keys(sandbox)


def test_a_pipeline_in_defs_yaml_is_read_as_in_a_file_of_its_own(
    sandbox: DefsFolderSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By YAML 1.1 its name were a boolean, and a topic a number."""
    monkeypatch.setenv("TOPIC", "US")
    _write(sandbox, _INLINE.format(topic="eu.${TOPIC}"))
    names = AssetNames("on")
    assert {names.topic_key("0x10"), names.topic_key("eu.US")} <= _keys(sandbox)


def test_one_defs_yaml_with_several_pipelines(sandbox: DefsFolderSandbox) -> None:
    inline = _INLINE.format(topic="eu")
    _write(sandbox, "---\n".join((_defs_yaml(), inline, inline.replace(": on\n", ": off\n"))))
    repository = _loaded(sandbox).get_repository_def()
    pipelines = [AssetNames(name) for name in ("orders", "on", "off")]
    assert {names.commit_log_key for names in pipelines} <= {*repository.asset_graph.get_all_asset_keys()}
    assert {schedule.name for schedule in repository.schedule_defs} == {n.maintenance.schedule for n in pipelines}


def test_faults_are_told_with_file_and_line_and_without_a_traceback(sandbox: DefsFolderSandbox) -> None:
    folder = _write(sandbox)
    (folder / "pipeline.yaml").write_text("name: orders\nfoo: 1\n")
    refusal = _refusal(sandbox)
    assert isinstance(refusal, ResolutionException)
    assert f"{folder}/pipeline.yaml:2:1: foo: unknown key" in str(refusal)
    assert "Traceback" not in str(refusal)
    (folder / "defs.yaml").write_text(f"{_defs_yaml()}---\n{_INLINE.format(topic='eu')}    foo: 1\n")
    (folder / "pipeline.yaml").write_text(first_file("orders", NOBODY, NOBODY, "x", ""))
    assert "defs.yaml:14:5: foo: unknown key" in str(_refusal(sandbox))
    (folder / "defs.yaml").write_text(_defs_yaml().replace("pipeline.yaml", "gone.yaml"))
    assert "gone.yaml: cannot be read" in str(_refusal(sandbox))


def test_in_python(sandbox: DefsFolderSandbox) -> None:
    """A project may make the component in Python instead of YAML."""
    folder = _write(sandbox)
    (folder / "defs.yaml").unlink()
    (folder / "component.py").write_text(
        "import dagster as dg\n"
        "from k2k_assets import K2KPipelineComponent\n"
        "from k2k_assets.pipeline import load_pipeline\n"
        "@dg.component_instance\n"
        "def load(context: dg.ComponentLoadContext) -> K2KPipelineComponent:\n"
        "    return K2KPipelineComponent(pipeline=load_pipeline(context.path.parent / 'pipeline.yaml'))\n"
    )
    assert NAMES.commit_log_key in _keys(sandbox)


# -- what a project may change ----------------------------------------------------------------------------------------


def test_translation_says_how_assets_look(sandbox: DefsFolderSandbox) -> None:
    more = "  translation:\n    group_name: kafka\n    tags: { what: '{{ props.kind }}' }\n"
    more += "    description: 'Topic {{ props.name }} of {{ props.pipeline }}'\n"
    _write(sandbox, _defs_yaml(more=more))
    _discover("orders.eu")
    graph = _loaded(sandbox).resolve_asset_graph()
    assert {graph.get(key).group_name for key in graph.get_all_asset_keys()} == {"kafka"}
    topic = graph.get(NAMES.topic_key("orders.eu"))
    assert (topic.tags["what"], topic.description) == ("topic", "Topic orders.eu of orders")
    assert graph.get(NAMES.source_key("orders.eu")).tags["what"] == "source"


def test_a_subclass_says_how_assets_look_and_what_happens_around_a_copy(sandbox: DefsFolderSandbox) -> None:
    _write(sandbox, _defs_yaml(f"{_HERE}.Loud", "  volume: 11\n  translation: { owners: ['team:kafka'] }\n"))
    _discover("orders.eu")
    definitions = _loaded(sandbox)
    node = definitions.resolve_asset_graph().get(NAMES.topic_key("orders.eu"))
    assert (node.tags["volume"], node.tags["kind"], node.tags["of"]) == ("11", "topic", "orders")
    assert [*node.owners] == ["team:kafka"]
    asset = definitions.resolve_assets_def(node.key)
    result = dg.materialize([asset], selection=[node.key])
    (event,) = result.get_asset_materialization_events()
    assert event.materialization.metadata["copied"].value is False


def test_keys_stay(sandbox: DefsFolderSandbox) -> None:
    """Sensors and runs report under them."""
    _write(sandbox, _defs_yaml(f"{_HERE}.Renaming"))
    assert "must not change keys" in str(_refusal(sandbox))


# -- state that Dagster keeps -----------------------------------------------------------------------------------------

_LOCAL = "  defs_state: { management_type: LOCAL_FILESYSTEM }\n"


def _component(sandbox: DefsFolderSandbox, folder: Path) -> K2KPipelineComponent:
    with sandbox.load_component_and_build_defs(folder) as (component, _):
        assert isinstance(component, K2KPipelineComponent)
        return component


def test_state_that_is_kept_elsewhere_is_asked_for(
    sandbox: DefsFolderSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 1.0)
    component = _component(sandbox, _write(sandbox, _defs_yaml(more=_LOCAL)))
    state = tmp_path / "state"
    with pytest.raises(ClusterUnreachable, match=r"source cluster at 127.0.0.1:1 does not answer"):
        component.write_state_to_path(state)
    assert not state.exists()
    _discover("orders.eu")
    definitions = _loaded(sandbox)
    keys = definitions.resolve_asset_graph().get_all_asset_keys()
    assert NAMES.undiscovered_key("orders[.].*") in keys, "what is remembered elsewhere does not count"
    assert [schedule.name for schedule in definitions.schedules or ()] == [NAMES.maintenance.schedule]
    component.write_state_to_path(state)
    assert "orders.eu" in state.read_text(), "what is remembered stands for a cluster that does not answer"


def test_state_of_another_release_is_as_none(sandbox: DefsFolderSandbox, tmp_path: Path) -> None:
    folder = _write(sandbox, _defs_yaml(more=_LOCAL))
    context = ComponentTree.for_test().load_context
    state = tmp_path / "state"
    state.write_text('{"version": 99}')
    shown = _component(sandbox, folder).build_defs_from_state(context, state).resolve_asset_graph()
    assert NAMES.undiscovered_key("orders[.].*") in shown.get_all_asset_keys()


def test_the_key_of_the_state_is_the_pipelines_or_what_the_project_says(sandbox: DefsFolderSandbox) -> None:
    folder = _write(sandbox)
    assert _component(sandbox, folder).defs_state_config.key == "K2KPipelineComponent[orders]"
    (folder / "defs.yaml").write_text(_defs_yaml(more=_LOCAL.replace("{ ", "{ key: shop, ")))
    assert _component(sandbox, folder).defs_state_config.key == "shop"


# -- scaffolding ------------------------------------------------------------------------------------------------------


def test_scaffolding_writes_an_exactly_once_pipeline(sandbox: DefsFolderSandbox) -> None:
    folder = sandbox.scaffold_component(
        K2KPipelineComponent, "orders", {"source": "a:9092", "target": "b:9092", "topics": r"orders\..*"}
    )
    pipeline = load_pipeline(folder / "pipeline.yaml")
    assert (pipeline.name, pipeline.selection.pattern) == ("orders", r"orders\..*")
    assert pipeline.features.exactly_once
    assert pipeline.client_properties("target", "admin")["bootstrap.servers"] == "b:9092"
    assert NAMES.undiscovered_key(r"orders\..*") in _keys(sandbox)


def test_scaffolding_leaves_a_pipeline_file_alone(sandbox: DefsFolderSandbox) -> None:
    folder = _write(sandbox)
    before = (folder / "pipeline.yaml").read_text()
    sandbox.scaffold_component(K2KPipelineComponent, "orders")
    assert (folder / "pipeline.yaml").read_text() == before
