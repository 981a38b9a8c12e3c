"""The definitions load without a broker, with any names, and the three tools that load them agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from k2k_assets import discovery
from k2k_assets.definitions import FOLDER_VARIABLE, build_definitions, load_folder, pipelines_folder
from k2k_assets.discovery import DiscoveredTopic, Discovery
from k2k_assets.orchestration.names import COMMON_MAINTENANCE, AssetNames
from k2k_assets.orchestration.pipeline_definitions import pipeline_definitions
from k2k_assets.pipeline import load_pipeline
from k2k_assets_tests.support.copies.pipelines import write_pipeline

ROOT = Path(__file__).parent.parent
# Nothing listens there, so a request to a broker would fail.
NOBODY = "127.0.0.1:1"
ODD_TOPICS = ("a.b", "a-b", "a_b", "2024", "x__dot__y", "context")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    made = tmp_path / "pipelines"
    made.mkdir()
    monkeypatch.setenv("K2K_PIPELINES", str(made))
    return made


def _write(
    folder: Path,
    name: str,
    topics: str | Sequence[str],
    file: str | None = None,
    features: Mapping[str, str] | None = None,
    consumer_groups: str | Sequence[str] = ".*",
    **sections: object,
) -> Path:
    enabled = {"offsetMapping": "enabled"} if features is None else features
    groups: dict[str, Any] = {"groups": {"consumerGroups": consumer_groups}} if enabled else {}
    path = write_pipeline(folder, NOBODY, NOBODY, topics, features=enabled, **groups)
    document = {**yaml.safe_load(path.read_text()), "name": name, **sections}
    path.unlink()
    written = folder / (file or f"{len(list(folder.iterdir()))}.yaml")
    written.write_text(yaml.safe_dump(document))
    return written


def _discover(name: str, topics: Sequence[str]) -> None:
    found = {topic: DiscoveredTopic(3, topic) for topic in topics}
    discovery.save(Discovery(name, 1, "source-id", "target-id", found))


def _odd(folder: Path) -> None:
    for name in ("my-pipeline", "my.pipeline", "my_pipeline", "orders & more/übung"):
        _write(folder, name, list(ODD_TOPICS))
    _write(folder, "not-yet", r"orders[.]\w+/?|x")
    (folder / "broken.yml").write_text("name: [\n")


def test_odd_names_load_and_every_job_resolves(folder: Path) -> None:
    _odd(folder)
    repository = build_definitions(folder).get_repository_def()
    jobs = {job.name: job for job in repository.get_all_jobs()}
    assert AssetNames("my-pipeline").job in jobs
    assert len(jobs) == 22, "four a pipeline, maintenance, and Dagster's own for the asset graph"
    graph = repository.asset_graph
    for name in ("my-pipeline", "my.pipeline", "my_pipeline"):
        for topic in ODD_TOPICS:
            key = dg.AssetKey([name, "topics", topic])
            assert graph.get(key).is_executable
            assert graph.get(key).parent_keys == {dg.AssetKey([name, "source", topic])}
            source = graph.get(dg.AssetKey([name, "source", topic]))
            assert source.is_observable
            assert not source.is_materializable
        upstream = graph.get(dg.AssetKey([name, "commit_log"])).parent_keys
        assert upstream == {dg.AssetKey([name, "topics", topic]) for topic in ODD_TOPICS}
        assert graph.get(dg.AssetKey([name, "offset_mappings"])).parent_keys == {dg.AssetKey([name, "commit_log"])}
        assert graph.get(dg.AssetKey([name, "group_positions"])).parent_keys == {dg.AssetKey([name, "offset_mappings"])}
    groups = {graph.get(key).group_name for key in graph.get_all_asset_keys()}
    assert len(groups) == 4 * 4 + 3 + 1, "four a pipeline, three before discovery, one of the broken file"


def test_every_job_has_its_blocking_checks(folder: Path) -> None:
    _write(folder, "my-pipeline", ["a.b"])
    names = AssetNames("my-pipeline")
    repository = build_definitions(folder).get_repository_def()
    checks = repository.get_job(names.job).asset_layer.asset_graph.asset_check_keys
    blocking = {check.name for check in checks if repository.asset_graph.get(check).blocking}
    assert blocking == {"schema_and_ranges", "ordered_and_disjoint", "coverage", "within_watermarks", "content"}
    assert {check.name for check in checks} - blocking == {"copies_on", "as_configured"}, (
        "a stop has failed its run already"
    )
    sensors = {sensor.name for sensor in repository.sensor_defs}
    assert sensors == {"k2k_replication_sensor_my__pipeline", "k2k_offset_sync_sensor_my__pipeline"}


def test_every_job_runs_in_one_process(folder: Path) -> None:
    """A run owns its JVM: steps in processes of their own would each start one."""
    _write(folder, "p", ["one"])
    names = AssetNames("p")
    jobs = {job.name: job for job in build_definitions(folder).get_repository_def().get_all_jobs()}
    own = {names.job, names.sync_job, names.mappings_job, names.offset_sync_job}
    assert jobs.keys() > own
    (implicit,) = jobs.keys() - own - {COMMON_MAINTENANCE.job}
    assert implicit.startswith("__ASSET_JOB")
    assert {name: job.executor_def.name for name, job in jobs.items()} == dict.fromkeys(jobs, "in_process")
    by_itself = pipeline_definitions(load_pipeline([folder / "0.yaml"]), None)
    for name in own:
        assert by_itself.resolve_job_def(name).executor_def.name == "in_process", "also where another is the default"


def test_no_neighbour_renames_a_sensor(folder: Path) -> None:
    """Dagster keeps a sensor's switch and cursor under its name."""
    first, second = {"k2k_replication_sensor_first"}, {"k2k_replication_sensor_second"}
    _write(folder, "first", ["one"], file="a.yaml", features={})
    assert _sensors(folder) == {"first": first}
    _write(folder, "second", ["one"], file="b.yml", features={})
    assert _sensors(folder) == {"first": first, "second": second}, "a file is added"
    _write(folder, "first", ["two"], file="c.yaml", features={})
    (folder / "d.yaml").write_text("name: [\n")
    assert _sensors(folder) == {"first": first, "second": second}, "files that cannot be used are added"
    (folder / "c.yaml").unlink()
    (folder / "a.yaml").write_text("name: [\n")
    assert _sensors(folder) == {"second": second}, "the first file breaks"
    _write(folder, "first", ["one"], file="z.yaml", features={"offsetMapping": "enabled"})
    assert _sensors(folder) == {"first": {*first, "k2k_offset_sync_sensor_first"}, "second": second}, "it is mended"


def test_every_asset_says_whose_it_is(folder: Path) -> None:
    """Owners, tags that can be searched for, and the file to open."""
    file = _write(folder, "p", ["one"], owners=["team:payments", "ann@example.com"])
    found = {"one": DiscoveredTopic(1, "one")}
    discovery.save(Discovery("p", 1, "source-id", "target-id", found, ("billing",)))
    graph = build_definitions(folder).resolve_asset_graph()
    for node in graph.asset_nodes:
        assert node.owners == ["team:payments", "ann@example.com"]
        said = {key: value for key, value in node.tags.items() if key.startswith("k2k/")}
        assert said == {
            "k2k/pipeline": "p",
            "k2k/delivery": "at-least-once",
            "k2k/source_cluster": "source-id",
            "k2k/target_cluster": "target-id",
        }
        (reference,) = node.metadata["dagster/code_references"].code_references
        assert reference.file_path == str(file)
    groups = {node.group_name for node in graph.asset_nodes}
    assert groups == {"p_source", "p_copy", "p_offsets", "p_groups"}


def test_consumer_groups_are_assets_below_the_mappings(folder: Path) -> None:
    _write(folder, "p", ["one"])
    names = AssetNames("p")
    assert _names(folder, "consumer_groups") == {".*"}, "one stands for all"
    groups = ("billing", "a.b", "a-b", "a b/ü", "x" * 300)
    discovery.save(Discovery("p", 1, "source-id", "target-id", {"one": DiscoveredTopic(1, "one")}, groups))
    repository = build_definitions(folder).get_repository_def()
    for group in groups:
        node = repository.asset_graph.get(names.consumer_group_key(group))
        assert node.parent_keys == {names.offset_mappings_key}
        (check,) = node.check_keys
        assert check.name == {"a.b": "resumes_exactly_a_dot_b", "a-b": "resumes_exactly_a_dash_b"}.get(
            group, "resumes_exactly"
        )
        for job in (names.job, names.offset_sync_job):
            assert node.key in repository.get_job(job).asset_layer.asset_graph.get_all_asset_keys()
    assert len(_names(folder, "consumer_groups")) == len(groups)


def test_which_consumer_groups_are_shown(folder: Path) -> None:
    _write(folder, "p", ["one"], consumer_groups=["billing", "shipping"])
    assert _names(folder, "consumer_groups") == {"billing", "shipping"}, "before discovery"
    _write(folder, "q", ["one"], consumer_groups="b.*")
    found = {"one": DiscoveredTopic(1, "one")}
    discovery.save(Discovery("q", 1, "source-id", "target-id", found, ("billing", "shipping", "backup")))
    keys = build_definitions(folder).resolve_asset_graph().materializable_asset_keys
    shown = {key.path[2] for key in keys if key.path[0] == "q" and key.path[1] == "consumer_groups"}
    assert shown == {"billing", "backup"}


def test_without_mappings_there_are_no_consumer_groups(folder: Path) -> None:
    _write(folder, "p", ["one"], features={})
    repository = build_definitions(folder).get_repository_def()
    assert _names(folder, "consumer_groups") == set()
    assert [sensor.name for sensor in repository.sensor_defs] == [AssetNames("p").sensor]


def test_before_discovery_one_asset_stands_for_the_pattern(folder: Path) -> None:
    _write(folder, "p", "orders-.*")
    assert _topics(folder) == {"orders-.*"}
    _discover("p", ["orders-a", "orders-b", "other"])
    assert _topics(folder) == {"orders-a", "orders-b"}, "what the pattern no longer selects is not shown"


def test_listed_topics_are_shown_before_discovery(folder: Path) -> None:
    _write(folder, "p", ["one", "two"])
    assert _topics(folder) == {"one", "two"}


def test_a_broken_file_shows_and_says_why_and_takes_nobody_down(folder: Path) -> None:
    _write(folder, "good", ["one"], file="good.yaml")
    _write(folder, "good", ["two"], file="same-name.yaml")
    (folder / "broken.yml").write_text("name: broken\nfoo: 1\n")
    definitions = build_definitions(folder)
    assert _topics(folder) == {"one"}
    for file, reason in (("broken.yml", "foo: unknown key"), ("same-name.yaml", "the name 'good' is taken")):
        key = dg.AssetKey(["broken_pipeline_files", file])
        asset = definitions.resolve_assets_def(key)
        assert reason in (asset.descriptions_by_key[key] or "")
        with pytest.raises(dg.Failure, match=reason):
            dg.materialize([asset])


def test_no_pipeline_at_all_still_loads(folder: Path) -> None:
    repository = build_definitions(folder).get_repository_def()
    assert not repository.asset_graph.get_all_asset_keys()


def test_pipeline_files_are_looked_for_in_a_folder_of_that_name_or_where_the_variable_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    assert pipelines_folder() == Path("pipelines")
    for said, meant in (("", Path("pipelines")), ("/etc/k2k", Path("/etc/k2k")), ("~/k2k", Path.home() / "k2k")):
        monkeypatch.setenv(FOLDER_VARIABLE, said)
        assert pipelines_folder() == meant


def test_secrets_of_the_spark_section_are_not_shown(folder: Path) -> None:
    _write(folder, "p", ["one"])
    path = folder / "0.yaml"
    document = {**yaml.safe_load(path.read_text()), "spark": {"config": {"spark.hadoop.fs.s3a.secret.key": "hush"}}}
    path.write_text(yaml.safe_dump(document))
    repository = build_definitions(folder).get_repository_def()
    resources = repository.get_top_level_resources()
    assert "hush" not in repr(
        {
            name: resource.config_schema.default_value
            for name, resource in resources.items()
            if resource.config_schema.default_provided
        }
    )


def test_workspace_and_pyproject_say_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    (loaded,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    module = loaded["python_module"]
    assert project["dagster"] == {
        "module_name": module["module_name"],
        "code_location_name": module["location_name"],
    }
    assert project["dg"]["project"]["code_location_target_module"] == module["module_name"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [("dagster", "definitions", "validate"), ("dg", "check", "defs")],
    ids=lambda command: " ".join(command),
)
def test_the_tools_load_them(folder: Path, command: tuple[str, ...]) -> None:
    _odd(folder)
    tool = Path(sys.executable).with_name(command[0])
    environment = {**os.environ, "DAGSTER_HOME": "", "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [str(tool), *command[1:]], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


# As a code server does.
_SERVED = """
import json, sys
from pathlib import Path
import psutil
from k2k_assets.definitions import build_definitions
from k2k_assets.spark.java_process import has_java

repository = build_definitions(Path(sys.argv[1])).get_repository_def()
repository.load_all_definitions()
names = {name.partition(".")[0] for name in sys.modules}
print(json.dumps([has_java(), len(psutil.Process().children()), "pyspark" in names, sorted(names & {*sys.argv[2:]})]))
"""


@pytest.mark.slow
def test_who_loads_them_starts_no_java_and_imports_nothing_heavy(folder: Path) -> None:
    _odd(folder)
    heavy = ["pandas", "pandera", "pyarrow"]
    command = [sys.executable, "-c", _SERVED, str(folder), *heavy]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=True).stdout
    assert json.loads(said) == [False, 0, True, []]


def _sensors(folder: Path) -> dict[str, set[str]]:
    """The names of the sensors of each pipeline."""
    found: dict[str, set[str]] = {}
    for sensor in build_definitions(folder).get_repository_def().sensor_defs:
        for target in sensor.targets:
            found.setdefault(target.job_name.rpartition("_")[0], set()).add(sensor.name)
    return found


def _topics(folder: Path) -> set[str]:
    return _names(folder, "topics")


def _names(folder: Path, kind: str) -> set[str]:
    graph = build_definitions(folder).get_repository_def().asset_graph
    keys = (key for key in graph.materializable_asset_keys if len(key.path) == 3)
    return {key.path[2] for key in keys if key.path[1] == kind}


def test_a_file_for_the_offset_mapper_alone_is_no_broken_pipeline(folder: Path) -> None:
    """K2K's second program has files of its own; they may lie beside the pipelines."""
    _write(folder, "copying", ["orders"])
    mapper = {"name": "mapper", "groups": {"consumerGroups": ".*"}} | {
        side: {"kafka": {"common": {"bootstrap.servers": NOBODY}}} for side in ("source", "target")
    }
    (folder / "mapper.yaml").write_text(yaml.safe_dump(mapper))
    (folder / "faulty.yaml").write_text(yaml.safe_dump({**mapper, "groups": {"consumerGroup": ".*"}}))
    found = load_folder(folder)
    assert [pipeline.name for pipeline in found.pipelines.values()] == ["copying"]
    assert [path.name for path in found.mappers] == ["mapper.yaml"]
    assert [path.name for path in found.broken] == ["faulty.yaml"]
    assert "groups.consumerGroup: unknown key; did you mean consumerGroups?" in found.broken[folder / "faulty.yaml"]

    graph = build_definitions(folder).get_repository_def().asset_graph
    shown = graph.get(dg.AssetKey(["offset_mapper_files", "mapper.yaml"]))
    assert not shown.is_materializable
    assert "`k2k-offset-mapping start -f mapper.yaml` runs it" in (shown.description or "")
    assert graph.get(dg.AssetKey(["broken_pipeline_files", "faulty.yaml"])).is_materializable


def test_several_pairs_of_stages_are_one_pipeline_of_assets(folder: Path) -> None:
    sink = {"sink": {"topic": {"prefix": "copy."}, "partition": "source"}}
    stages = [
        {"source": {"topic": "eu.*"}},
        sink,
        {"source": {"topic": ["us"]}},
        {"sink": {"topic": "source", "partition": "source"}},
    ]
    _write(folder, "pairs", ".*", replication=stages)
    waiting = build_definitions(folder).get_repository_def().asset_graph
    assert waiting.get(AssetNames("pairs").undiscovered_key("(?:eu.*)|(?:us)")).is_executable
    found = {"eu1": DiscoveredTopic(1, "copy.eu1"), "us": DiscoveredTopic(1, "us")}
    discovery.save(Discovery("pairs", 1, "source-id", "target-id", found))
    graph = build_definitions(folder).get_repository_def().asset_graph
    assert all(graph.get(dg.AssetKey(["pairs", "topics", topic])).is_executable for topic in found)
