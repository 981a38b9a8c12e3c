"""Rules of `transform` as a file has them: what is refused, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets_tests.pipeline.files import TUTORIAL, load_text, refusal

LINE = TUTORIAL.count("\n") + 3
"""Line of the first part of a rule that `with_rule` puts behind the tutorial's file."""


def with_rule(*lines: str) -> str:
    """The tutorial's file with a rule of these lines."""
    return TUTORIAL + "transform:\n  - pattern: .*\n" + "".join(f"    {line}\n" for line in lines)


OTHER_LANGUAGES = ["customers[*].email", "$[0].ssn", "items[].pan", "a.*", "$a", "/a/b", "$.a[0]", "a['b']"]


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
    names = ["customers[*]", "$", "/a", "*", "a.b"]
    (rule,) = load_text(tmp_path, with_rule(f"drop: [{{value: {names}}}, {{value: _id.$oid}}, {{key: $.a}}]")).transform
    assert [place.value or place.key for place in rule.drop] == [tuple(names), "_id.$oid", "$.a"]
