"""On secured clusters the listed permissions are enough; without any one of them the start names it and refuses."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from opentelemetry.sdk.metrics.export import MetricExportResult

from k2k_assets.cli import offset_mapping, tool
from k2k_assets.cli.main import run
from k2k_assets.control.control_topics import control_topics
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.failback_view import failback_plans
from k2k_assets.groups.mapper import sync_once
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.mapping.index import MappingIndex
from k2k_assets.mapping.index.manifest import Manifest, NotedPosition
from k2k_assets.mapping.index.portion_table import PORTIONS
from k2k_assets.overrides.apply import override
from k2k_assets.overrides.request import Request, Wanted
from k2k_assets.permissions.required import PROGRAMS, Program, required
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.principals import binding
from k2k_assets.telemetry.kafka_exporter import KafkaMetricExporter
from k2k_assets.topics.others_control_topics import others_control_topics
from k2k_assets.verification.mapping_checks import CHECKS as MAPPING_CHECKS
from k2k_assets.verification.mapping_checks import Evidence, run_check
from k2k_assets_tests.permissions.permissions_fixture import (
    FEATURES,
    Case,
    PermissionsFixture,
    Way,
    case_of,
    with_dead_letters,
)
from k2k_assets_tests.support.brokers import kafka, secure
from k2k_assets_tests.support.brokers.groups import commit, held
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, assert_same_content, copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.suite.storms import in_storms
from k2k_assets_tests.telemetry.test_instruments import Metrics
from k2k_assets_tests.telemetry.test_instruments import commit as commit_event

NO_SPARK: Any = None
pytestmark = pytest.mark.integration

RECORDS = 30


def _cases(program: Program) -> list[Case]:
    """Every permission of a pipeline with everything switched on."""
    with tempfile.TemporaryDirectory() as folder:
        rules = [with_dead_letters("dead")]
        pipeline = make_pipeline(Path(folder), "s:1", "t:1", ["topic"], features=FEATURES, transform=rules)
    return [case_of(each) for each in required(pipeline, [program])]


REPLICATION, MAPPER, CHECKS, FAILBACK, TELEMETRY = map(_cases, PROGRAMS)
# Topics that exist need not be created.
OF_EXISTING, MAPPER_OF_EXISTING = ([case for case in cases if case[2] != "Create"] for cases in (REPLICATION, MAPPER))
CREATED = [case for case in MAPPER if case[2] == "Create"]


@pytest.fixture(scope="module")
def fixture(secure_clusters: KafkaSandbox, tmp_path_factory: pytest.TempPathFactory) -> PermissionsFixture:
    return PermissionsFixture(secure_clusters, tmp_path_factory.mktemp("pipelines"))


@pytest.fixture(scope="module")
def topic(fixture: PermissionsFixture) -> str:
    """A topic of the source with records, some in transactions."""
    name = kafka.create_topic(fixture.servers("source"), kafka.unique("guarded"))
    for n in range(3):
        values = [b"%d" % (n * 10 + i) for i in range(RECORDS // 3)]
        kafka.produce(fixture.servers("source"), name, values, 0, kafka.unique("tx"), abort=False)
    return name


@pytest.fixture(scope="module")
def copied(fixture: PermissionsFixture, topic: str) -> Path:
    """A pipeline file of the user, with which everything has been copied at least once; the group stands at 11."""
    group = kafka.unique("group")
    commit(fixture.servers("source"), group, {TopicPartition(topic, 0): 11})
    path = fixture.pipeline_file([topic], exactly_once=False, groups={"consumerGroups": [group]})
    fixture.grant(fixture.acls(path, "replication"))
    assert not copy(load_pipeline([path])).stopped
    return path


def _name(case: Case) -> str:
    return "-".join(case).replace(" ", "_")


def _refusal(start: Callable[[], Any]) -> str:
    with pytest.raises(Refused) as refused:
        start()
    return str(refused.value)


def _group_of(pipeline: Pipeline) -> str:
    names = pipeline.groups.consumer_groups
    assert not isinstance(names, str)
    (group,) = names
    return group


def _refusal_without(
    fixture: PermissionsFixture, path: Path, program: Program, case: Case, start: Callable[[], Any]
) -> str:
    """With all permissions but one: it is named, and nothing else is."""
    acls, said = fixture.lacking(path, program, case)
    fixture.grant(acls)
    refusal = _refusal(start)
    assert said in refusal
    assert refusal.count("does not allow") == 1
    return refusal


def _index_of(topic: str, folder: Path) -> MappingIndex:
    """An index that knows of a position of one topic, and of nothing else: no check comes further that is refused."""
    position = NotedPosition(topic=topic, partition=0, source_topic_id="", position=1, records=1)
    nothing = dict.fromkeys(
        ("group", "source_cluster", "target_cluster", "mapping_topic", "mapping_topic_id", "directory"), ""
    )
    counts = dict.fromkeys(("number", "time", "records_read", "runs", "mapped"), 0)
    told = {"pipeline": "p", "offsets": {}, "positions": [position], **nothing, **counts}
    manifest = Manifest.model_validate(told)
    return MappingIndex(folder, manifest, PORTIONS.empty_table())


def _written(fixture: PermissionsFixture, pipeline: Pipeline, topic: str) -> list[int]:
    """Ends of target topic, commit topic and mapping topic; 0 of one that does not exist."""
    names = [pipeline.routing.target_topic(topic), pipeline.coordination.commit.topic, pipeline.offset_mapping.topic]
    known = kafka.topics(fixture.servers("target"))
    ends = [kafka.end_offsets(fixture.servers("target"), name) if name in known else {} for name in names]
    return [sum(of_topic.values()) for of_topic in ends]


@pytest.mark.slow
@pytest.mark.parametrize("exactly_once", [True, False], ids=["exactly once", "at least once"])
def test_with_all_of_them_everything_is_copied(fixture: PermissionsFixture, topic: str, exactly_once: bool) -> None:
    path = fixture.pipeline_file([topic], exactly_once)
    acls = fixture.acls(path, "replication")
    assert {acl.operation for acl in acls["source"]} == {AclOperation.READ, AclOperation.DESCRIBE_CONFIGS}
    assert {acl.restype for acl in acls["source"]} == {ResourceType.TOPIC}  # no group: not even its coordinator
    fixture.grant(acls)
    pipeline = load_pipeline([path])
    source, target = fixture.servers("source"), fixture.servers("target")
    for _ in range(2):  # the second run takes over from the first, and fences its slots
        assert not copy(pipeline).stopped
    assert assert_same_content(source, topic, target, pipeline.routing.target_topic(topic)) == RECORDS
    assert_exact_mappings(pipeline, source, target, topic)


@pytest.mark.slow
@pytest.mark.parametrize("case", REPLICATION, ids=_name)
def test_without_any_one_of_them_nothing_is_copied(fixture: PermissionsFixture, topic: str, case: Case) -> None:
    path = fixture.pipeline_file([topic])
    pipeline = load_pipeline([path])
    refusal = _refusal_without(fixture, path, "replication", case, lambda: copy(pipeline))
    assert "k2k acls -f FILE" in refusal
    assert _written(fixture, pipeline, topic) == [0, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("case", OF_EXISTING, ids=_name)
def test_a_copy_that_lost_one_of_them_is_not_gone_on_with(
    fixture: PermissionsFixture, topic: str, copied: Path, case: Case
) -> None:
    pipeline = load_pipeline([copied])
    before = _written(fixture, pipeline, topic)
    _refusal_without(fixture, copied, "replication", case, lambda: copy(pipeline))
    assert _written(fixture, pipeline, topic) == before


@pytest.mark.slow
@pytest.mark.parametrize("case", CREATED, ids=_name)
def test_a_mapper_that_may_not_create_a_topic_creates_none(fixture: PermissionsFixture, topic: str, case: Case) -> None:
    path = fixture.pipeline_file([topic], groups={"consumerGroups": [kafka.unique("group")]})
    pipeline = load_pipeline([path])
    _refusal_without(fixture, path, "mapper", case, lambda: sync_once(pipeline))
    assert not set(control_topics(pipeline)) & set(kafka.topics(fixture.servers("target")))
    fixture.grant(fixture.acls(path, "mapper"))
    assert sync_once(pipeline).groups == []


@pytest.mark.slow
@pytest.mark.parametrize("case", MAPPER_OF_EXISTING, ids=_name)
def test_without_any_one_of_them_no_group_is_moved(
    fixture: PermissionsFixture, topic: str, copied: Path, case: Case
) -> None:
    pipeline = load_pipeline([copied])
    group = _group_of(pipeline)
    _refusal_without(fixture, copied, "mapper", case, lambda: sync_once(pipeline))
    assert held(fixture.servers("target"), group) == {}


@pytest.mark.slow
def test_with_all_of_them_groups_are_moved(fixture: PermissionsFixture, topic: str, copied: Path) -> None:
    pipeline = load_pipeline([copied])
    group = _group_of(pipeline)
    acls = fixture.acls(copied, "mapper")
    assert {acl.operation for acl in acls["source"]} == {AclOperation.DESCRIBE}
    fixture.grant(acls)
    result = sync_once(pipeline)
    assert result.committed == {group}
    target = TopicPartition(pipeline.routing.target_topic(topic), 0)
    position, _ = held(fixture.servers("target"), group)[target]
    read = kafka.read_all(fixture.servers("target"), target.topic)
    assert next(record.value for record in read if record.offset >= position) == b"10"


@pytest.mark.slow
@pytest.mark.parametrize("case", FAILBACK, ids=_name)
def test_without_any_one_of_them_no_group_returns(fixture: PermissionsFixture, copied: Path, case: Case) -> None:
    pipeline = load_pipeline([copied])
    with both_clusters(pipeline) as clusters:
        _refusal_without(fixture, copied, "failback", case, lambda: failback_plans(pipeline, *clusters))


@pytest.mark.parametrize("case", CHECKS, ids=_name)
def test_without_any_one_of_them_no_check_judges(
    fixture: PermissionsFixture, topic: str, copied: Path, case: Case
) -> None:
    """What may not be seen would seem not to exist: fewer topics to compare, or none."""
    pipeline = load_pipeline([copied])
    index = _index_of(topic, copied.parent)
    with both_clusters(pipeline) as clusters:
        evidence = Evidence(pipeline, NO_SPARK, index, *clusters)
        for check in MAPPING_CHECKS:
            _refusal_without(fixture, copied, "checks", case, partial(run_check, check, evidence))


@pytest.mark.slow
@pytest.mark.parametrize("case", OF_EXISTING, ids=_name)
def test_without_any_one_of_them_no_position_is_set(
    fixture: PermissionsFixture, topic: str, copied: Path, case: Case
) -> None:
    pipeline = load_pipeline([copied])
    before = _written(fixture, pipeline, topic)
    request = Request((Wanted(topic, None, "earliest"),), "anna")
    with both_clusters(pipeline) as clusters:
        _refusal_without(fixture, copied, "replication", case, lambda: override(pipeline, *clusters, request))
    assert _written(fixture, pipeline, topic) == before


def test_positions_are_shown_with_the_permissions_of_checks_and_set_with_those_of_copying(
    fixture: PermissionsFixture, topic: str, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    order = ["set", "-f", str(copied), "-o", f"{topic}:0:current"]
    programs: dict[Program, int] = {"checks": 3, "replication": 0}
    for program, code in programs.items():
        fixture.grant(fixture.acls(copied, program))
        assert tool.run(["describe", "-f", str(copied)]) == 0
        assert f"{topic}" in capsys.readouterr().out
        assert tool.run(order) == code
        said = capsys.readouterr()
        assert ("1 position set" in said.out) == (code == 0)
        for name in control_topics(load_pipeline([copied])):
            assert (f"does not allow User:{fixture.user} to Write the topic '{name}'" in said.err) == (code == 3)


@pytest.mark.slow
def test_failback_writes_to_the_source_with_its_own_permissions_alone(
    fixture: PermissionsFixture, topic: str, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = load_pipeline([copied])
    group = _group_of(pipeline)
    at, there = TopicPartition(topic, 0), TopicPartition(pipeline.routing.target_topic(topic), 0)
    commit(fixture.servers("source"), group, {at: 11}, "of the application")
    last = kafka.read_all(fixture.servers("target"), there.topic)[-1]
    commit(fixture.servers("target"), group, {there: last.offset + 1})
    acls = fixture.acls(copied, "failback")
    # By the permissions of a mapper, groups of the source can be seen and not written.
    for granted, code in ((acls | {"source": fixture.acls(copied, "mapper")["source"]}, 3), (acls, 0)):
        fixture.grant(granted)
        assert offset_mapping.run(["failback", "-f", str(copied)]) == code
        said = capsys.readouterr()
        position, metadata = held(fixture.servers("source"), group)[at]
        if code:
            assert f"does not allow User:{fixture.user} to Read the group '{group}'" in said.err
            assert (position, metadata) == (11, "of the application")
    assert kafka.read_all(fixture.servers("source"), topic)[-1].offset < position


def test_metrics_are_written_with_their_own_permissions_alone(
    fixture: PermissionsFixture, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = fixture.pipeline_file(["any"], metrics={"kafka": {"topic": kafka.unique("metrics")}})
    pipeline, metrics = load_pipeline([path]), Metrics(tmp_path)
    metrics.instruments.listen(commit_event(TopicPartition("any", 0), 3))
    written, exporter = pipeline.metrics.kafka.topic, KafkaMetricExporter(pipeline)
    assert not fixture.acls(path, "telemetry")["source"]
    for case in sorted(TELEMETRY):  # Create before Write: what exists need not be created
        acls, _ = fixture.lacking(path, "telemetry", case)
        fixture.grant(acls)
        caplog.clear()
        assert exporter.export(metrics.data()) is MetricExportResult.FAILURE
        assert written in caplog.text
    fixture.grant(fixture.acls(path, "telemetry"))
    assert exporter.export(metrics.data()) is MetricExportResult.SUCCESS
    exporter.shutdown()
    assert kafka.read_all(fixture.servers("target"), written)


def test_the_permissions_on_a_reverse_pipeline_are_looked_at_too(
    fixture: PermissionsFixture, copied: Path, tmp_path: Path
) -> None:
    """What of its mappings may not be seen would count as not there, and records as not read."""
    pipeline = load_pipeline([copied])
    source, target = (way(fixture.brokers[role], fixture.user) for role, way in fixture._ways.items())
    features = {"offsetMapping": "enabled"}
    reverse = load_pipeline([secure.write_secure_pipeline(tmp_path, target, source, ["any"], features=features)])
    for name in control_topics(reverse):
        kafka.create_topic(fixture.servers("source"), name)
    fixture.grant(fixture.acls(copied, "failback"))
    with both_clusters(pipeline) as clusters:
        refusal = _refusal(lambda: failback_plans(pipeline, *clusters, reverse))
    assert f"does not allow User:{fixture.user} to Read the topic '{reverse.offset_mapping.topic}'" in refusal


@pytest.mark.parametrize("way", [secure.mtls, *in_storms((secure.pem_texts,))])
def test_who_comes_with_a_certificate_is_named_by_it(
    secure_clusters: KafkaSandbox, tmp_path: Path, topic: str, way: Way
) -> None:
    fixture = PermissionsFixture(secure_clusters, tmp_path, (secure.scram, way))
    path = fixture.pipeline_file([topic])
    pipeline = load_pipeline([path])
    acls = fixture.acls(path, "replication")
    name = pipeline.routing.target_topic(topic)
    acls["target"] = {a for a in acls["target"] if (a.name, a.operation) != (name, AclOperation.CREATE)}
    fixture.grant(acls)
    refusal = _refusal(lambda: copy(pipeline))
    assert f"does not allow the principal of this client's certificate (CN={fixture.user}" in refusal
    assert f") to Create the topic '{name}'" in refusal
    assert _written(fixture, pipeline, topic) == [0, 0, 0]


def test_all_that_is_missing_is_named_at_once(
    fixture: PermissionsFixture, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = fixture.pipeline_file([topic])
    pipeline = load_pipeline([path])
    cases = [("source", "copied topics", "DescribeConfigs"), ("target", "slots", "Write")]
    lacking = [fixture.lacking(path, "replication", case) for case in cases]
    acls = {role: lacking[0][0][role] & lacking[1][0][role] for role in ("source", "target")}
    for granted, code in ((acls, 3), (fixture.acls(path, "replication"), 0)):
        fixture.grant(granted)
        assert run(["validate", "--connect", "-f", str(path)]) == code
        shown = capsys.readouterr()
        assert all((said in shown.err) == (code == 3) for _, said in lacking)
        assert ("both clusters are ready" in shown.out) == (code == 0)
        if code:
            assert run(["start", "--once", "-f", str(path)]) == code  # before Spark is started
            shown = capsys.readouterr()
            assert all(said in shown.err for _, said in lacking)
            assert "Traceback" not in shown.err
    assert _written(fixture, pipeline, topic) == [0, 0, 0]


def test_control_topics_of_others_are_known_though_one_topics_settings_are_hidden(fixture: PermissionsFixture) -> None:
    """Only what is hidden is taken for data: without the right it would be left out for ever."""
    servers, prefix = fixture.servers("source"), kafka.unique("seen")
    pipeline = load_pipeline([fixture.pipeline_file(f"{prefix}.*")])
    as_ours = next(iter(control_topics(pipeline).values())).config
    names = [f"{prefix}-{n}" for n in range(2)]
    for name in names:
        kafka.create_topic(servers, name, 1, as_ours)
    acls = {binding(fixture.user, ResourceType.TOPIC, name, AclOperation.READ) for name in names}
    acls.add(binding(fixture.user, ResourceType.TOPIC, names[0], AclOperation.DESCRIBE_CONFIGS))
    fixture.grant({"source": acls, "target": set()})
    with both_clusters(pipeline) as (source, _):
        assert others_control_topics(pipeline, source, names) == {names[0]}


def test_a_pattern_that_selects_only_hidden_topics(fixture: PermissionsFixture, topic: str) -> None:
    path = fixture.pipeline_file(f"{topic[:-2]}.*")
    acls, said = fixture.lacking(path, "replication", ("source", "copied topics", "Read"))
    fixture.grant(acls)
    assert said in _refusal(lambda: copy(load_pipeline([path])))
    fixture.grant(fixture.acls(path, "replication"))
    assert not copy(load_pipeline([path])).stopped


def test_a_topic_that_does_not_exist_is_not_called_hidden(fixture: PermissionsFixture) -> None:
    path = fixture.pipeline_file([kafka.unique("absent")])
    fixture.grant(fixture.acls(path, "replication"))
    refusal = _refusal(lambda: copy(load_pipeline([path])))
    assert "does not exist" in refusal
    assert "does not allow" not in refusal


def test_creation_may_be_allowed_for_the_cluster_as_a_whole(fixture: PermissionsFixture, topic: str) -> None:
    path = fixture.pipeline_file([topic])
    acls = fixture.acls(path, "replication")
    acls["target"] = {acl for acl in acls["target"] if acl.operation is not AclOperation.CREATE}
    acls["target"].add(binding(fixture.user, ResourceType.BROKER, "kafka-cluster", AclOperation.CREATE))
    fixture.grant(acls)
    assert not copy(load_pipeline([path])).stopped


def test_the_optional_one_lets_brokers_be_asked_for_their_limits(fixture: PermissionsFixture, topic: str) -> None:
    path = fixture.pipeline_file([topic])
    pipeline, acls = load_pipeline([path]), fixture.acls(path, "replication")
    with Cluster("target", pipeline.client_properties("target", "admin")) as target:
        fixture.grant(acls)
        with pytest.raises(Refused, match="AUTHORIZATION_FAILED"):
            target.broker_config("transaction.max.timeout.ms")
        acls["target"].add(binding(fixture.user, ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS))
        fixture.grant(acls)
        assert target.broker_config("transaction.max.timeout.ms") == "900000"


@pytest.mark.slow
def test_of_groups_that_a_pattern_selects_some_will_do(fixture: PermissionsFixture, topic: str, copied: Path) -> None:
    seen, hidden = kafka.unique("seen"), kafka.unique("hidden")
    for group in (seen, hidden):
        commit(fixture.servers("source"), group, {TopicPartition(topic, 0): 5})
    over = copied.with_name("over.yaml")
    over.write_text("groups: {consumerGroups: '.*'}")
    pipeline = load_pipeline([copied, over])
    acls = fixture.acls(copied, "mapper")
    group = _group_of(load_pipeline([copied]))
    named = {role: [acl for acl in acls[role] if acl.name == group] for role in acls}
    for role, (acl,) in named.items():
        acls[role].remove(acl)
    fixture.grant(acls)
    assert "to Describe the group every name" in _refusal(lambda: sync_once(pipeline))
    acls["source"].add(binding(fixture.user, ResourceType.GROUP, seen, AclOperation.DESCRIBE))
    fixture.grant(acls)
    assert f"to Read the group '{seen}'" in _refusal(lambda: sync_once(pipeline))
    acls["target"].add(binding(fixture.user, ResourceType.GROUP, seen, AclOperation.READ))
    fixture.grant(acls)
    assert sync_once(pipeline).committed == {seen}
