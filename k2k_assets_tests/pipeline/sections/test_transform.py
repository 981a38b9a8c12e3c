"""Rules of `transform` as a file has them: what is refused, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets_tests.pipeline.files import TUTORIAL, changed, load_text, refusal

LINE = TUTORIAL.count("\n") + 3
"""Line of the first part of a rule that `with_rule` puts behind the tutorial's file."""


def with_rule(*lines: str) -> str:
    """The tutorial's file with a rule of these lines."""
    return TUTORIAL + "transform:\n  - pattern: .*\n" + "".join(f"    {line}\n" for line in lines)


OTHER_LANGUAGES = [
    "customers[*].email",
    "$[0].ssn",
    "items[].pan",
    "a.*",
    "$a",
    "/a/b",
    "$.a[0]",
    "a['b']",
    "a.0.b",
    "a.10",
    "0.a",
]


@pytest.mark.parametrize("path", OTHER_LANGUAGES)
@pytest.mark.parametrize(
    ("rule", "place", "column"),
    [
        ('mask: [{{value: "{}", with: x}}]', "mask[0].value", 13),
        ('drop: [{{value: "{}"}}]', "drop[0].value", 13),
        ('filter: {{not: {{value: "{}", exists: true}}}}', "filter.not.value", 20),
    ],
)
def test_a_path_of_another_language_is_refused(tmp_path: Path, path: str, rule: str, place: str, column: int) -> None:
    """It would lead to no field, and what it is to hide would be copied."""
    said = refusal(tmp_path, with_rule(rule.format(path)))
    assert said.startswith(f"0.yaml:{LINE}:{column}: transform[0].{place}: expected a field such as customer.email, ")
    assert f"found '{path}'. A list on the way means each of its elements: write customers.email. A name" in said
    assert 'is an element of a list: ["a[0]", b]' in said


def test_a_name_may_have_any_characters_in_a_list(tmp_path: Path) -> None:
    names = ["customers[*]", "$", "/a", "*", "a.b", "0"]
    others = "{value: _id.$oid}, {key: $.a}, {key: a1.2b}"
    (rule,) = load_text(tmp_path, with_rule(f"drop: [{{value: {names}}}, {others}]")).transform
    assert [place.value or place.key for place in rule.drop] == [tuple(names), "_id.$oid", "$.a", "a1.2b"]


@pytest.mark.parametrize("written", ["1.10", "0042", "1e3", "+7", "True", "true", "12345678901234567890.5", "1e9999"])
@pytest.mark.parametrize("place", ["header: h", "value: $", "key: $"])
def test_what_is_compared_as_text_is_as_the_file_has_it(tmp_path: Path, written: str, place: str) -> None:
    lines = (
        f"filter: {{any: [{{{place}, equals: {written}}}, {{not: {{{place}, in: [{written}, a, '{written}']}}}}]}}",
    )
    (rule,) = load_text(tmp_path, with_rule(*lines)).transform
    assert rule.filter is not None
    equals, other = rule.filter["any"]
    assert (equals["equals"], other["not"]["in"]) == (written, [written, "a", written])


@pytest.mark.parametrize("written", ["0012", "1.10", "True"])
def test_a_mask_writes_what_the_file_has(tmp_path: Path, written: str) -> None:
    (rule,) = load_text(tmp_path, with_rule(f"mask: [{{value: a, with: {written}}}]")).transform
    assert rule.mask[0].with_ == written


def test_fields_are_compared_with_numbers_as_numbers(tmp_path: Path) -> None:
    lines = ("filter: {any: [{value: a.b, equals: 1.10}, {key: [a], in: [0042, True, '1']}]}",)
    (rule,) = load_text(tmp_path, with_rule(*lines)).transform
    assert rule.filter == {"any": [{"value": "a.b", "equals": 1.1}, {"key": ["a"], "in": [42, True, "1"]}]}


def test_a_number_of_a_later_file_and_of_an_alias_is_as_it_is_written(tmp_path: Path) -> None:
    over = "transform:\n  - &rule {pattern: a, filter: {header: v, equals: &v 1.10}}\n"
    over += "  - {<<: *rule, mask: [{header: v, with: *v}]}\n"
    first, second = load_text(tmp_path, with_rule("drop: [{value: a}]"), over).transform
    assert first.filter == second.filter == {"header": "v", "equals": "1.10"}
    assert second.mask[0].with_ == "1.10"


@pytest.mark.parametrize(
    "lines",
    [
        "filter: 1.10",
        "filter: [1]",
        "filter: {any: 1}",
        "filter: {not: 3}",
        "filter: {header: h, in: 1.0}",
        "mask: 1",
        "mask: [1]",
    ],
)
def test_a_faulty_rule_is_refused_in_words_where_texts_are_looked_for(tmp_path: Path, lines: str) -> None:
    assert f"0.yaml:{LINE}:" in refusal(tmp_path, with_rule(lines))
    assert "transform: expected" in refusal(tmp_path, TUTORIAL + "transform: 1.10\n")
    assert "transform[0]: expected" in refusal(tmp_path, TUTORIAL + "transform: [1.10]\n")


def test_a_number_that_is_not_finite_equals_no_field(tmp_path: Path) -> None:
    said = refusal(tmp_path, with_rule("filter: {value: a, equals: 1e9999}"))
    assert said.startswith(f"0.yaml:{LINE}:24: transform[0].filter.equals: expected a text, a finite number, true or")
    said = refusal(tmp_path, with_rule("filter: {value: a, in: [1, -1e9999]}"))
    assert "transform[0].filter.in: expected a list of texts, finite numbers, true or false" in said


@pytest.mark.parametrize("part", ["filter", "mask", "drop", "python", "onError", "pattern"])
def test_an_empty_part_of_a_rule_is_refused(tmp_path: Path, part: str) -> None:
    """It takes nothing of an earlier file away, as lists are replaced as a whole; who left it empty forgot it."""
    rule = {"pattern": ".*", "drop": [{"value": "a"}], "filter": {"header": "h", "exists": True}, part: None}
    said = refusal(tmp_path, changed({"transform": [rule]}))
    assert f" transform[0].{part}: expected a value, found nothing (null)" in said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "mask: [{value: , header: h, hash: sha256}]",
            "13: transform[0].mask[0].value: expected a value, found nothing",
        ),
        ("mask: [{value: a, with: , hash: sha256}]", "23: transform[0].mask[0].with: expected a value, found nothing"),
        ("drop: [{value: a, key: }]", "23: transform[0].drop[0].key: expected a value, found nothing"),
        ("filter: {all: [{header: h, exists: true}], any: }", "5: transform[0].filter: expected one of all, any, not"),
        ("filter: {header: h, equals: null}", "25: transform[0].filter.equals: expected a text, a finite number"),
    ],
)
def test_an_empty_part_within_a_rule_is_refused(tmp_path: Path, line: str, said: str) -> None:
    assert f"0.yaml:{LINE}:{said}" in refusal(tmp_path, with_rule(line))


def test_a_later_file_takes_all_rules_away(tmp_path: Path) -> None:
    assert load_text(tmp_path, with_rule("drop: [{value: a}]"), "transform:\n").transform == ()
