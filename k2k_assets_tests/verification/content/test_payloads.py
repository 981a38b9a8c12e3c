"""Keys and values as they are compared where schema ids are mapped: without ids, and with schemas as far as known."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyspark import cloudpickle

from k2k_assets.pipeline.clients.client_properties import ClusterRole
from k2k_assets.registry.canonical import SchemaDigest
from k2k_assets.registry.framing import prefix_of
from k2k_assets.registry.schemas import Schema
from k2k_assets.verification.content.payloads import Payloads, payloads_of, without_ids
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.services.registries import RegistryInMemory

LONG, NONE = Schema("AVRO", '"long"'), SchemaDigest("")


@pytest.mark.parametrize(
    ("payload", "without"),
    [
        (None, None),
        (b"", b""),
        (b"no id", b"no id"),
        (b"\0abc", b"\0abc"),
        (prefix_of(7), b"\0"),
        (prefix_of(7) + b"\0x", b"\0\0x"),
    ],
)
def test_what_follows_an_id_is_compared_in_the_facets_that_have_ids(
    payload: bytes | None, without: bytes | None
) -> None:
    assert without_ids(payload, payload, "value") == (payload, without)
    assert without_ids(payload, payload, "key value") == (without, without)
    assert without_ids(payload, payload, "") == (payload, payload)


def test_a_schema_is_the_same_under_another_id_and_unknown_once_it_is_deleted() -> None:
    source, target = RegistryInMemory(1), RegistryInMemory(50)
    ours, theirs = (registry.register("s", LONG) for registry in (source, target))
    sides = Payloads(lambda: source), Payloads(lambda: target)
    known = [
        side.schemas("t", b"key", prefix_of(at) + b"x", "value") for side, at in zip(sides, (ours, theirs), strict=True)
    ]
    assert known[0] == known[1]
    assert known[0][1] not in (None, NONE)
    assert sides[0].schemas("t", prefix_of(ours), prefix_of(2) + b"x", "value") == [NONE, None]
    assert sides[0].schemas("t", None, b"no id", "key value") == [NONE, NONE]


@pytest.mark.parametrize("role", ["source", "target"])
def test_where_the_file_has_no_registry_any_more_schemas_are_unknown(tmp_path: Path, role: ClusterRole) -> None:
    """Ids were mapped before, and what was copied so is still compared, without its schemas."""
    payloads = payloads_of(make_pipeline(tmp_path, "a:1", "b:1", ["t"]), role)
    for side in (payloads, pickle.loads(cloudpickle.dumps(payloads))):
        assert side.schemas("t", b"key", prefix_of(7) + b"x", "value") == [NONE, None]
