"""What rules make of records, against what is told of each by hand."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.errors import PipelineFileError
from k2k_assets.core.stops.reasons.expressions import MatchTooSlow
from k2k_assets.core.stops.reasons.records import TransformFailed
from k2k_assets.core.stops.reasons.unclassified import Unclassified
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import java_regex
from k2k_assets.pipeline.sections.transform import TransformRule, transform_text
from k2k_assets.registry.framing import prefix_of
from k2k_assets.stages import LongStage, stages_of
from k2k_assets.stages.transform import rules as rules_module
from k2k_assets.stages.transform.batch import Batch
from k2k_assets.stages.transform.rules import Transforms
from k2k_assets.stages.transform.stage import TransformStage
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.headers import Headers
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.fake_records import ListRecords
from k2k_assets_tests.support.suite.properties import examples

T = TopicPartition("orders", 0)
Payload = bytes | None


def transforms(*rules: dict[str, Any], folders: tuple[str, ...] = ()) -> Transforms:
    made = [TransformRule.model_validate({"pattern": ".*", **rule}) for rule in rules]
    return Transforms(transform_text(made, folders), folders)


def batch(
    values: list[Payload], keys: list[Payload] | None = None, headers: list[Headers | None] | None = None
) -> Batch:
    n = len(values)
    return Batch(T, range(10, 10 + n), [1000] * n, list(keys or [None] * n), list(values), list(headers or [None] * n))


def kept(rule: dict[str, Any], values: list[Payload], **parts: Any) -> list[int]:
    """Indices of the records that a rule keeps."""
    made = batch(values, **parts)
    transforms(rule).apply(made)
    return made.live()


def changed(rule: dict[str, Any], value: Payload, key: Payload = None, headers: Headers | None = None) -> Batch:
    made = batch([value], [key], [headers])
    transforms(rule).apply(made)
    return made


COUNTRIES: list[Payload] = [
    b'{"c": "DE"}', b'{"c": "FR"}', b'{"c": null}', b"{}", None, b'{"c": ["FR", "DE"]}', b'[{"c": "DE"}]', b'"DE"',
]  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ({"value": "c", "equals": "DE"}, [0, 5, 6]),
        ({"value": "$.c", "equals": "DE"}, [0, 5, 6]),
        ({"value": ["c"], "in": ["DE", "FR"]}, [0, 1, 5, 6]),
        ({"value": "c", "matches": "D."}, [0, 5, 6]),
        ({"value": "c", "exists": True}, [0, 1, 5, 6]),
        ({"value": "c", "exists": False}, [2, 3, 4, 7]),
        ({"value": "$", "exists": False}, [4]),
        ({"value": "$", "equals": '"DE"'}, [7]),
        ({"value": "$", "matches": ".*FR.*"}, [1, 5]),
        ({"not": {"value": "c", "equals": "DE"}}, [1, 2, 3, 4, 7]),
        ({"all": [{"value": "c", "equals": "DE"}, {"value": "c", "equals": "FR"}]}, [5]),
        ({"any": [{"value": "c", "equals": "FR"}, {"value": "$", "exists": False}]}, [1, 4, 5]),
    ],
)
def test_conditions_on_values(condition: dict[str, Any], wanted: list[int]) -> None:
    assert kept({"filter": condition}, COUNTRIES) == wanted


@pytest.mark.parametrize(
    ("scalar", "wanted"),
    [(5, [0, 1, 5]), (5.0, [0, 1, 5]), ("5", [2]), (True, [3]), (1, [4]), (12345678901234567890123, [6])],
)
def test_a_number_equals_a_number_and_a_text_a_text(scalar: Any, wanted: list[int]) -> None:
    contents = ["5", "5.0", '"5"', "true", "1", "50e-1", "12345678901234567890123"]
    values: list[Payload] = [b'{"n": %s}' % content.encode() for content in contents]
    assert kept({"filter": {"value": "n", "equals": scalar}}, values) == wanted


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ({"header": "h", "equals": "a"}, [0, 2]),
        ({"header": "h", "equals": 7}, [5]),
        ({"header": "h", "exists": True}, [0, 1, 2, 5]),
        ({"header": "h", "exists": False}, [3, 4, 6]),
        ({"header": "h", "matches": "[ab]"}, [0, 1, 2]),
    ],
)
def test_the_last_header_of_a_name_counts(condition: dict[str, Any], wanted: list[int]) -> None:
    headers: list[Headers | None] = [
        [("h", b"a")], [("h", b"a"), ("h", b"b")], [("h", b"b"), ("x", None), ("h", b"a")], [("x", b"a")], None,
        [("h", b"7")], [("h", b"a"), ("h", None)],
    ]  # fmt: skip
    assert kept({"filter": condition}, [b"no JSON"] * 7, headers=headers) == wanted


def test_conditions_on_keys() -> None:
    keys: list[Payload] = [b'{"id": 1}', b'{"id": 2}', None]
    assert kept({"filter": {"key": "id", "equals": 2}}, [None] * 3, keys=keys) == [1]
    assert kept({"filter": {"key": "$", "exists": True}}, [None] * 3, keys=keys) == [0, 1]


def test_a_value_keeps_its_numbers_its_order_and_its_names_where_a_field_is_masked() -> None:
    value = '{"z": 1.10, "a": {"email": "x@y", "id": 12345678901234567890.50}, "é": "\\u00fc", "e": 1E400}'
    made = changed({"mask": [{"value": "a.email", "with": "***"}]}, value.encode())
    assert made.values == ['{"z":1.10,"a":{"email":"***","id":12345678901234567890.50},"é":"ü","e":1E400}'.encode()]


def test_a_value_without_the_field_stays_byte_for_byte() -> None:
    for value in (b'{ "b" : 1 }', b'{"email": null}', b"[]", b"7", None):
        made = changed({"mask": [{"value": "email", "with": "***"}], "drop": [{"value": "notes.x"}]}, value)
        assert (made.values, made.has_new_payloads) == ([value], False)


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        (b'{"email": "secret", "email": null}', "stop"),
        (b'{"email": "secret", "\\u0065mail": null}', "stop"),
        (b'{"c": {"email": "secret"}, "c": {}}', "stop"),
        (b'[{"x": {"email": "secret", "email": null}}]', "stop"),
        (b'{"email": null, "email": "secret"}', b'{"email":"*"}'),
        (b'{"email": "secret", "email": "secret"}', b'{"email":"*"}'),
        (b'{"email": null}', "as it is"),
        (b'{"x": {"email": "secret"}}', "as it is"),
        (b'{"a\\u0062": 1e400, "c": [1, {"d": -0}]}', "as it is"),
    ],
)
def test_a_member_that_is_there_twice_hides_nothing_from_a_mask(value: bytes, outcome: str | bytes) -> None:
    made = changed({"mask": [{"value": "email", "with": "*"}]}, value)
    if outcome == "stop":
        assert made.stopped is not None
        assert "has a member twice" in made.stopped[1].found()
        assert "secret" not in made.stopped[1].found()
    else:
        assert (made.stopped, made.values) == (None, [value if outcome == "as it is" else outcome])
    for rule in ({"drop": [{"value": "email"}]}, {"mask": [{"value": "c.email", "hash": "sha256"}]}):
        made = changed(rule, value)
        is_there = b'"secret"' in (made.values[0] or b"") and made.stopped is None
        assert not is_there or value in (b'{"x": {"email": "secret"}}', b'{"email": null, "email": "secret"}')


def test_masks_reach_into_lists_and_replace_what_holds_more_as_a_whole() -> None:
    value = b'{"people":[{"email":"a"},{"email":["b","c"]},{"name":"d"}],"email":{"at":"e"}}'
    masks = [{"value": "people.email", "with": "*"}, {"value": "email", "hash": "sha256"}]
    hashed = hashlib.sha256(b'{"at":"e"}').hexdigest()
    assert changed({"mask": masks}, value).values == [
        b'{"people":[{"email":"*"},{"email":"*"},{"name":"d"}],"email":"%s"}' % hashed.encode()
    ]


def test_all_of_a_key_or_value_and_headers() -> None:
    rule = {
        "mask": [{"key": "$", "hash": "sha256"}, {"header": "user", "with": "?"}, {"value": "$", "with": 0}],
        "drop": [{"header": "debug"}],
    }
    headers: Headers = [("user", b"a"), ("debug", b"1"), ("user", None), ("x", b"y"), ("debug", None)]
    made = changed(rule, b"secret", b"k", headers)
    assert made.keys == [hashlib.sha256(b"k").hexdigest().encode()]
    assert made.values == [b"0"]
    assert made.headers == [[("user", b"?"), ("user", None), ("x", b"y")]]
    assert changed(rule, None, None, None).values == [None]
    dropped = changed({"drop": [{"value": "$"}, {"key": "$"}]}, b"v", b"k")
    assert (dropped.keys, dropped.values) == ([None], [None])


def test_a_schema_id_before_json_stays() -> None:
    framed = prefix_of(7) + b'{"email":"a","n":1}'
    made = changed({"mask": [{"value": "email", "with": "*"}]}, framed)
    assert made.values == [prefix_of(7) + b'{"email":"*","n":1}']


def test_rules_apply_one_after_the_other() -> None:
    rules = (
        {"mask": [{"value": "a", "with": "masked"}]},
        {"filter": {"value": "a", "equals": "masked"}, "drop": [{"value": "a"}]},
        {"filter": {"value": "$", "equals": '{"b":1}'}},
    )
    made = batch([b'{"a":"x","b":1}', b'{"a":"x","b":2}', b'{"b":1}'])
    transforms(*rules).apply(made)
    assert made.left_out == [None, "transform[2].filter", "transform[1].filter"]
    assert made.values[0] == b'{"b":1}'


def test_rules_are_for_the_topics_that_they_match() -> None:
    rules = transforms(
        {"pattern": "orders", "filter": {"value": "$", "exists": True}}, {"pattern": "or", "drop": [{"header": "h"}]}
    )
    assert [len(rules.of(topic)) for topic in ("orders", "or", "order", "other")] == [1, 1, 0, 0]


BROKEN: list[Payload] = [b'{"a": 1}', b"broken", b'{"a": 2}', b"\xff", b'{"a": 1}']


@pytest.mark.parametrize(
    ("policy", "left_out", "stopped", "dead"),
    [
        ({"onError": "stop"}, [None, None, None, None, None], 1, []),
        ({"onError": "drop"}, [None, "onError", "filter", "onError", None], None, []),
        ({"onError": "keep"}, [None, None, "filter", None, None], None, []),
        (
            {"onError": "deadLetter", "deadLetters": "dead"},
            [None, "deadLetters", "filter", "deadLetters", None], None, [1, 3],
        ),
    ],
)  # fmt: skip
def test_a_record_for_which_the_rule_fails(
    policy: dict[str, Any], left_out: list[str | None], stopped: int | None, dead: list[int]
) -> None:
    made = batch(BROKEN)
    transforms({"filter": {"value": "a", "equals": 1}, **policy}).apply(made)
    assert made.left_out == [name and f"transform[0].{name}" for name in left_out]
    assert (made.stopped[0] if made.stopped else None, sorted(made.dead)) == (stopped, dead)


ENDLESS = {"matches": "(a|a)*[bc]"}


@pytest.mark.parametrize(
    "condition", [{"value": "a", **ENDLESS}, {"value": "$", **ENDLESS}, {"not": {"header": "a", **ENDLESS}}], ids=str
)
@pytest.mark.parametrize(
    "policy",
    [{"onError": "stop"}, {"onError": "drop"}, {"onError": "keep"}, {"onError": "deadLetter", "deadLetters": "dead"}],
    ids=lambda policy: policy["onError"],
)
def test_a_match_that_takes_too_long_stops_the_topic_whatever_on_error_says(
    condition: dict[str, Any], policy: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long it takes is a matter of the machine: on another run the record might be copied."""
    monkeypatch.setattr(java_regex, "_LONGEST_SECONDS", 0.05)
    text = "a" * 60
    values: list[Payload] = [b'{"a": "aab"}', json.dumps({"a": text}).encode(), b'{"a": "aab"}']
    if condition.get("value") == "$":
        values = [b"aab", text.encode(), b"aab"]
    made = batch(values, headers=[None, [("a", text.encode())], None])
    transforms({"filter": condition, **policy}).apply(made)
    assert made.stopped is not None
    index, reason = made.stopped
    assert (index, made.left_out, made.dead) == (1, [None] * 3, {})
    assert reason == MatchTooSlow(made.source, made.offsets[1], "transform[0].filter", ENDLESS["matches"])
    assert f"{made.source} offset {made.offsets[1]}" in reason.found()


DEEP = b"[" * 800 + b'{"a":1}' + b"]" * 800


@pytest.mark.parametrize("rule", [
    {"filter": {"value": "a", "equals": 1}}, {"mask": [{"value": "a", "hash": "sha256"}]}, {"drop": [{"value": "a"}]},
])  # fmt: skip
@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b'{"name": "caf\xe9", "a": 1}', "its value has no fields: it is not JSON (a text in it is not UTF-8)"),
        (b'{"caf\xe9": 1}', "its value has no fields: it is not JSON (a text in it is not UTF-8)"),
        (b'{"name": "\\ud800"}', "its value has no fields: it is not JSON (Input data was truncated)"),
        (DEEP, "its JSON is nested too deeply"),
        (b"[" * 100_000, "its value has no fields: it is not JSON (maximum recursion depth exceeded"),
    ],
    ids=["Latin-1", "Latin-1 name", "half a character", "deep", "endless"],
)
def test_json_that_cannot_be_read_fails_for_its_record_alone(rule: dict[str, Any], payload: bytes, said: str) -> None:
    """Each of them in a batch with others, for which the rule does what it does."""
    made = batch([b'{"a": 1}', payload, b'{"a": 1}'])
    transforms({**rule, "onError": "deadLetter", "deadLetters": "dead"}).apply(made)
    assert made.left_out == [None, "transform[0].deadLetters", None]
    assert made.dead[1].failure.words.startswith(said)


def test_of_several_rules_that_stop_the_first_record_counts() -> None:
    made = batch([b'{"a": 1}', b'{"a": "x"}', b"broken"], keys=[b"{}", b"broken", b"{}"])
    transforms({"drop": [{"value": "a"}]}, {"drop": [{"key": "a"}]}).apply(made)
    assert made.stopped is not None
    index, reason = made.stopped
    assert isinstance(reason, TransformFailed)
    assert (index, reason.rule) == (1, "transform[1]")


def chunk_of(values: list[Payload], headers: list[Headers | None] | None = None, **more: Any) -> Chunk:
    return Chunk(T, ListRecords(list(range(10, 10 + len(values))), given_values=values, given_headers=headers), **more)


def test_the_stage_drops_cuts_and_puts_aside() -> None:
    rules = transforms(
        {"filter": {"value": "a", "equals": 1}, "onError": "deadLetter", "deadLetters": "dead"},
        {"drop": [{"key": "b"}], "filter": {"header": "stop", "exists": False}},
    )
    values: list[Payload] = [b'{"a":1}', b"bad", b'{"a":2}', b'{"a":1}', b"bad", b'{"a":1}']
    records = ListRecords(
        list(range(10, 16)),
        given_keys=[b"{}", b"k", b"{}", b"no JSON", b"k", b"{}"],
        given_values=values,
        given_headers=[[("h", b"1")], [("own", b"x")], None, None, None, None],
    )
    chunk = TransformStage(rules, "p")(Chunk(T, records))
    assert list(chunk.records.offsets()) == [10]
    assert chunk.fault is not None
    assert (chunk.fault.code, chunk.end) == ("transform-failed", 13)
    assert chunk.dropped is not None
    assert [(r.rule, r.start, r.end) for r in chunk.dropped.ranges()] == [
        ("transform[0].deadLetters", 11, 12),
        ("transform[0].filter", 12, 13),
    ]
    (aside,) = chunk.aside
    assert (aside.target_topic, aside.columns().values(), aside.columns().keys()) == ("dead", [b"bad"], [b"k"])
    (headers,) = aside.columns().headers()
    assert headers is not None
    assert headers[0] == ("own", b"x")
    assert dict(headers)["__k2k_error_offset"] == b"11"


@pytest.mark.parametrize(("every", "looks"), [(0.0, 6), (60.0, 1)])
def test_while_rules_are_applied_others_get_their_turn(
    monkeypatch: pytest.MonkeyPatch, every: float, looks: int
) -> None:
    """An expression that takes a moment for each record takes half a minute for a chunk."""
    monkeypatch.setattr(rules_module, "_LOOK_SECONDS", every)
    stage, seen = TransformStage(transforms({"filter": {"value": "$", "matches": ".*a"}}), "p"), list[int]()
    assert isinstance(stage, LongStage)
    stage.call_while_working(lambda: seen.append(1))
    for _ in range(2):
        assert stage(chunk_of([b"a", b"b", b"ba"])).count == 2
    assert len(seen) == looks


def test_a_later_stage_that_cuts_the_chunk_takes_the_dead_letters_behind_it_too() -> None:
    rules = transforms({"drop": [{"value": "a"}], "onError": "deadLetter", "deadLetters": "dead"})
    chunk = TransformStage(rules, "p")(chunk_of([b"bad", b"{}", b"bad", b"{}"]))
    assert [aside.records.offsets() for aside in chunk.aside] == [[10, 12]]
    chunk.cut(0, Unclassified("a fault"))  # at offset 11
    assert [list(aside.records.offsets()) for aside in chunk.aside] == [[10]]


def test_a_topic_without_a_rule_is_not_decoded() -> None:
    rules = transforms({"pattern": "another", "drop": [{"value": "a"}]})
    chunk = chunk_of([b"bad"], target_partition=0)
    records = chunk.records
    assert TransformStage(rules, "p")(chunk).records is records


def test_without_rules_there_is_no_stage(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"])
    assert not any(isinstance(stage, TransformStage) for stage in stages_of(pipeline, "a", "b"))
    assert pipeline.transform_text == ""


SCALARS = st.one_of(st.integers(), st.text(max_size=5), st.booleans(), st.none())
CONTENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=12,
)
PAYLOADS = st.one_of(st.none(), CONTENTS.map(lambda content: json.dumps(content).encode()), st.binary(max_size=4))


def masked(content: Any, steps: list[str]) -> Any:
    """What a mask has to make of content."""
    if isinstance(content, list):
        return [masked(each, steps) for each in content]
    if not isinstance(content, dict) or steps[0] not in content:
        return content
    inner = content[steps[0]]
    new = masked(inner, steps[1:]) if steps[1:] else (None if inner is None else "*")
    return {**content, steps[0]: new}


@examples(200)
@given(CONTENTS, st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3))
def test_any_content_is_masked_where_the_path_leads_and_nowhere_else(content: Any, steps: list[str]) -> None:
    made = changed({"mask": [{"value": steps, "with": "*"}]}, json.dumps(content).encode())
    assert made.stopped is None
    assert json.loads(made.values[0] or b"") == masked(content, steps)


@examples(100)
@given(
    st.lists(st.one_of(st.none(), CONTENTS.map(lambda c: json.dumps(c).encode()), st.binary(max_size=4)), max_size=12)
)
def test_what_becomes_of_a_record_depends_on_it_alone(values: list[Payload]) -> None:
    rules = transforms(
        {"filter": {"not": {"value": "a", "exists": True}}, "onError": "drop"}, {"mask": [{"value": "b", "with": "*"}]}
    )
    together = batch(values)
    rules.apply(together)
    for index, value in enumerate(values):
        alone = batch([value])
        rules.apply(alone)
        assert (alone.values[0], alone.left_out[0]) == (together.values[index], together.left_out[index])


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({}, "at least one of filter, mask, drop, python"),
        ({"filter": {}}, "a condition"),
        ({"filter": {"equals": 1}}, "header, key or value beside equals"),
        ({"filter": {"value": "a"}}, "and one of equals, in, matches, exists"),
        ({"filter": {"value": "a", "key": "b", "equals": 1}}, "one of header, key, value"),
        ({"filter": {"value": "a", "exists": "yes"}}, "true or false"),
        ({"filter": {"value": "a", "in": []}}, "a list of texts"),
        ({"filter": {"value": "a", "matches": "("}}, "a regular expression"),
        ({"filter": {"value": "a..b", "equals": 1}}, "a field such as customer.email"),
        ({"filter": {"all": {"value": "a", "equals": 1}}}, "a list of conditions"),
        (
            {"filter": {"all": [{"value": "a", "equals": 1}], "not": {"value": "a", "equals": 2}}},
            "one of all, any, not",
        ),
        ({"filter": {"any": [{"not": {"value": "a", "equals": []}}]}}, "a text, a finite number"),
        ({"mask": [{"value": "a"}]}, "one of with, hash"),
        ({"mask": [{"with": "*"}]}, "one of header, key, value"),
        ({"drop": [{"value": "a", "header": "b"}]}, "one of header, key, value"),
        ({"drop": [{"value": "a"}], "onError": "deadLetter"}, "the name of a topic in deadLetters"),
        ({"drop": [{"value": "a"}], "deadLetters": "dead"}, "onError: deadLetter"),
        ({"drop": [{"value": "a"}], "onError": "keep"}, "another onError than keep"),
        ({"python": "module"}, "module:function"),
        ({"filter": {"header": "a", "exists": True}, "functionTimeout": "3 seconds"}, "functionTimeout beside python"),
        ({"python": "no_such_module:f"}, "the module no_such_module cannot be imported: ModuleNotFoundError"),
        ({"python": "json:no_such_function"}, "the module json has no function 'no_such_function'"),
        ({"drop": [{"header": "__k2k_bidirectional"}]}, "without it they come back"),
        ({"drop": [{"value": "a"}], "onError": "deadLetter", "deadLetters": "commits"}, "is a control topic"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, rule: dict[str, Any], said: str) -> None:
    with pytest.raises(PipelineFileError, match="transform") as refused:
        make_pipeline(
            tmp_path, "a:1", "b:1", ["t"], transform=[{"pattern": ".*", **rule}],
            features={"bidirectionalReplication": "enabled"}, coordination={"commit": {"topic": "commits"}},
        )  # fmt: skip
    assert said in str(refused.value)


def test_an_expression_means_what_it_means_in_java_also_where_text_is_not_ascii() -> None:
    names = ['{"name": "Müller"}', '{"name": "Smith"}', '{"name": "42"}', '{"name": "a\\rb"}']
    values: list[Payload] = [name.encode() for name in names]
    assert kept({"filter": {"value": "name", "matches": "\\p{L}+"}}, values) == [0, 1]
    assert kept({"filter": {"value": "name", "matches": ".*"}}, values) == [0, 1, 2]
    headers: list[Headers | None] = [[("h", "Ü".encode())], [("h", b"1")]]
    assert kept({"filter": {"header": "h", "matches": "\\p{Lu}"}}, values[:2], headers=headers) == [0]
