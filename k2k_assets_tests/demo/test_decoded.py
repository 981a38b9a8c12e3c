"""Values are decoded with the schemas of each side's own registry, and nothing that differs is let pass."""

from __future__ import annotations

import json

import pytest

from k2k_assets.demo.decoded import Decoded, compare_decoded
from k2k_assets.registry.framing import prefix_of

SCHEMA, OTHER = (json.dumps({"properties": {name: {}}}) for name in ("celsius", "kelvin"))
SOURCE, TARGET = {1: SCHEMA, 2: OTHER}, {41: SCHEMA, 42: OTHER}
VALUE = prefix_of(1) + b'{"celsius": 20}'


def compared(copy: bytes | None) -> Decoded:
    return compare_decoded("readings", {0: [VALUE]}, {0: [copy] if copy else []}, (SOURCE.get, TARGET.get))


def test_the_same_reading_with_the_same_schema_under_another_id() -> None:
    assert compared(prefix_of(41) + VALUE[5:]) == Decoded("readings", 1, (1,), (41,), ())


@pytest.mark.parametrize(
    ("copy", "fault"),
    [
        (VALUE, "readings-0, value 0: its registry does not have schema 1"),
        (b"20", "readings-0, value 0: no schema id"),
        (prefix_of(42) + VALUE[5:], "readings-0, value 0: schema 42 does not have celsius"),
        (prefix_of(41) + b'{"celsius": 21}', "20"),
        (None, "readings-0: 1 value on the source, 0 on the target"),
    ],
)
def test_what_differs(copy: bytes | None, fault: str) -> None:
    """A value without a schema, with a wrong one, or that is missing is a fault that names the topic."""
    found = compared(copy)
    assert found.values == 0
    assert fault in found.faults[0]
