"""Keys and values of control topics: a struct decides what is written and what is accepted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from k2k_assets.core import wire


class Key(wire.Fields, frozen=True):
    group: str
    topic_id: str


class Kept(wire.Value, frozen=True):
    position: int
    records: int = wire.written(0)
    reason: str | None = wire.written(None)
    log_start: int | None = None


@dataclass
class Record:
    position: int = 7
    log_start: int | None = None
    version: int = 1
    group: str = "g"


KEPT = Kept(1, 7)
BODY = {"version": 1, "position": 7, "records": 0, "reason": None}


def read(**changed: Any) -> Kept:
    return wire.decode(Kept, json.dumps(BODY | changed).encode(), 1, "commits-0@9")


def test_a_field_is_left_out_where_it_is_none_and_one_that_is_written_always_never() -> None:
    assert wire.encode(KEPT) == b'{"version":1,"position":7,"records":0,"reason":null}'
    assert wire.encode(Kept(1, 7, 0, "gone", 0)) == (
        b'{"version":1,"position":7,"records":0,"reason":"gone","logStart":0}'
    )
    assert wire.encode(Key("g", "id")) == b'{"group":"g","topicId":"id"}'


def test_a_record_has_the_fields_as_its_attributes_but_for_those_that_are_named() -> None:
    assert wire.fields_of(Record(log_start=3), Kept) == Kept(1, 7, log_start=3)
    given = {"records": 4, "reason": "gone"}
    assert wire.fields_of(Record(), Kept, **given) == Kept(1, 7, 4, "gone")
    assert wire.contents(Kept(1, 7, 4, "gone"), "reason") == {"position": 7, "records": 4, "log_start": None}


def test_fields_that_are_not_known_are_passed_over_and_those_with_a_default_may_be_missing() -> None:
    assert read(later={"a": [1]}) == KEPT
    assert wire.decode(Kept, b'{"position":7,"version":1}', 1, "there") == KEPT


@pytest.mark.parametrize("log_start", [None, 0, 8])
def test_none_may_be_written_for_a_field_that_we_leave_out(log_start: int | None) -> None:
    assert read(logStart=log_start).log_start == log_start


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("position", value) for value in (None, "7", "far", 7.0, 7.5, True, [7], {"at": 7})),
        *(("records", value) for value in (None, "7", 7.0)),
        *(("reason", value) for value in (7, ["gone"])),
        *(("logStart", value) for value in ("7", 7.0, False)),
    ],
)
def test_a_field_of_a_wrong_type_is_refused_by_name_and_place(field: str, value: object) -> None:
    """No release ever wrote one: a number is no text, no fraction and no truth value."""
    with pytest.raises(ValueError, match=rf"^commits-0@9: field missing or of a wrong type: .*`\$\.{field}`$"):
        read(**{field: value})


def test_a_field_that_is_missing_is_refused_by_name_and_place() -> None:
    with pytest.raises(ValueError, match=r"^commits-0@9: field missing or of a wrong type: .*`position`$"):
        wire.decode(Kept, b'{"version":1}', 1, "commits-0@9")
    with pytest.raises(ValueError, match=r"^commits-0@9, key: field missing or of a wrong type: .*`topicId`$"):
        wire.decode_key(Key, b'{"group":"g"}', "commits-0@9")
    with pytest.raises(ValueError, match=r"^commits-0@9, key: field missing or of a wrong type: .*`\$\.topicId`$"):
        wire.read(Key, {"group": "g", "topicId": 7}, "commits-0@9, key")


@pytest.mark.parametrize("others", [{}, {"position": "elsewhere"}, {"position": None}])
@pytest.mark.parametrize("version", [0, 2, "1", None, 1.0])
def test_an_unknown_version_is_told_whatever_else_is_in_the_record(version: object, others: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^commits-0@9: version .* is unknown here \(1 to 1 are read\); upgrade k2k$"):
        read(version=version, **others)


def test_an_older_version_is_read() -> None:
    assert wire.decode(Kept, json.dumps(BODY).encode(), 2, "there") == KEPT


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (None, "has no value"),
        (b"", "is not JSON"),
        (b"\x00\x01", "is not JSON"),
        (b"\xff\xfe{\x00}\x00", "is not JSON"),  # UTF-16: nobody of ours ever wrote it
        (b'{"version":1,"position":7}}', "is not JSON"),
        (b'{"version":1,"of a newer release":' + b'{"a":' * 100_000, "is not JSON"),
        (b'{"version":1,"position":7,"reason":"\xed\xa0\xbd"}', "is not JSON"),  # half a letter
        (b"[]", "is not a JSON object"),
        (b"7", "is not a JSON object"),
    ],
)
def test_what_is_no_json_object_is_refused_with_its_place(data: bytes | None, what: str) -> None:
    with pytest.raises(ValueError, match=rf"^commits-0@9: {what}"):
        wire.decode(Kept, data, 1, "commits-0@9")
