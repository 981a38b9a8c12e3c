"""No two names are equal: for any names, and for names that are known to confuse Dagster."""

from __future__ import annotations

import re

from dagster import AssetKey
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.naming import escape
from k2k_assets.orchestration.names import (
    BROKEN_FILES_GROUP,
    COMMON_MAINTENANCE,
    AssetNames,
    broken_file_key,
    broken_file_op,
    key_part,
    label,
)

_TRICKY = st.text(alphabet="ab_.-x25e/ ü0dot", max_size=12)
_NAMES = st.one_of(st.text(min_size=1, max_size=30), _TRICKY.filter(bool))
_IDENTIFIER = re.compile(r"^[A-Za-z0-9_]+$")
_ESCAPED = re.compile(r"__|_dot_|_dash_|_x([0-9a-f]+)_")


def unescape(escaped: str) -> str:
    """The name that `escape` was given."""
    plain = {"__": "_", "_dot_": ".", "_dash_": "-"}
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)) if match[1] else plain[match[0]], escaped)


@given(_NAMES)
def test_escape_can_be_read_back(name: str) -> None:
    assert unescape(escape(name)) == name
    assert _IDENTIFIER.match(escape(name))
    assert _IDENTIFIER.match(label(name))


@given(_NAMES, _NAMES)
def test_different_names_stay_different(one: str, other: str) -> None:
    if one == other:
        return
    assert escape(one) != escape(other)
    assert key_part(one) != key_part(other)
    assert label(one) != label(other)
    assert broken_file_op(one) != broken_file_op(other)


def _op_names(pipeline: str) -> list[str]:
    names = AssetNames(pipeline)
    made = ("sources", "topics", "commit_log", "offset_mappings", "consumer_groups", "group_positions")
    return [
        *(names.op(what) for what in made),
        names.op("sources", 2),
        names.mapping_checks_op,
        names.topic_checks_op,
        names.job,
        names.sync_job,
        names.mappings_job,
        names.offset_sync_job,
        names.maintenance.job,
        names.maintenance.op,
        broken_file_op(pipeline),
    ]


def _groups(pipeline: str) -> list[str]:
    names = AssetNames(pipeline)
    return [names.source_group, names.copy_group, names.offsets_group, names.consumer_groups_group]


@given(_NAMES, _NAMES)
def test_ops_of_different_pipelines_never_meet(one: str, other: str) -> None:
    assert len(set(_op_names(one))) == len(_op_names(one))
    if one != other:
        assert not set(_op_names(one)) & set(_op_names(other))
        assert len({*_groups(one), *_groups(other)}) == 8
        names = AssetNames(one), AssetNames(other)
        ticking = [(each.sensor, each.offset_sensor, each.maintenance.schedule) for each in names]
        assert len({name for of_one in ticking for name in of_one}) == 6


@given(_NAMES, _NAMES, _NAMES, _NAMES)
def test_keys_are_injective_also_as_strings(one: str, topic: str, other: str, other_topic: str) -> None:
    def keys(pipeline: str, name: str) -> list[str]:
        names = AssetNames(pipeline)
        by_name = (names.source_key(name), names.topic_key(name), names.consumer_group_key(name))
        made = (*by_name, names.commit_log_key, names.offset_mappings_key, names.group_positions_key)
        return [key.to_user_string() for key in made]

    assert len(set(keys(one, topic))) == 6
    if one != other:
        assert not set(keys(one, topic)) & set(keys(other, other_topic))
    elif topic != other_topic:
        assert not set(keys(one, topic)[:3]) & set(keys(other, other_topic)[:3])


@given(_NAMES)
def test_maintenance_of_a_folder_is_no_pipelines(name: str) -> None:
    assert not {COMMON_MAINTENANCE.job, COMMON_MAINTENANCE.op} & {*_op_names(name)}
    assert AssetNames(name).maintenance.schedule != COMMON_MAINTENANCE.schedule


@given(_NAMES)
def test_the_group_of_broken_files_is_nobodys_group(name: str) -> None:
    assert BROKEN_FILES_GROUP not in _groups(name)


def test_the_names_people_use_stay_readable() -> None:
    names = AssetNames("my-pipeline")
    assert names.job == "my__pipeline_materialize"
    assert AssetNames("my_pipeline").job == "my_pipeline_materialize"
    assert names.op("topics") == "my__pipeline_copy"
    assert names.topic_key("orders.v1").path == ["my-pipeline", "topics", "orders.v1"]
    assert {names.output(topic) for topic in ("a.b", "a-b", "a_b")} == {"topic_a_dot_b", "topic_a_dash_b", "topic_a__b"}
    assert {names.group_output(group) for group in ("a.b", "a_b")} == {"group_a_dot_b", "group_a__b"}
    assert names.sensor == "k2k_replication_sensor_my__pipeline"
    assert broken_file_key("orders.yaml").path == ["broken_pipeline_files", "orders.yaml"]


def test_a_pipeline_owns_its_assets_and_no_others() -> None:
    names, other = AssetNames("a.b"), AssetNames("a-b")
    own = [
        names.commit_log_key,
        names.offset_mappings_key,
        names.group_positions_key,
        names.topic_key("gone"),
        names.source_key("gone"),
        names.consumer_group_key("gone"),
        names.undiscovered_key("x.*"),
    ]
    assert all(map(names.owns, own))
    assert not any(map(other.owns, own))
    for foreign in (["a.b"], ["a.b", "report"], ["a.b", "topics"], ["a.b", "reports", "daily"], ["topics", "a.b", "x"]):
        assert not names.owns(AssetKey(foreign)), foreign
