"""The filter on group names."""

from __future__ import annotations

import pytest

from k2k_assets.pipeline.sections.group_selection import GroupSelection


@pytest.mark.parametrize(
    ("groups", "selected", "left"),
    [
        (".*", ["a", "billing-1", "größe", ""], []),
        ("billing-.*", ["billing-", "billing-1"], ["my-billing-1", "billing"]),
        ("a|b", ["a", "b"], ["ab", "a|b"]),
        ("(?!test-).*", ["prod-x"], ["test-x"]),
        (("a.*", "b"), ["a.*", "b"], ["ab", "a"]),
    ],
)
def test_an_expression_matches_whole_names_and_a_list_is_literal(
    groups: str | tuple[str, ...], selected: list[str], left: list[str]
) -> None:
    selection = GroupSelection(groups)
    assert [name for name in [*selected, *left] if selection.matches(name)] == selected


def test_names_that_are_not_there() -> None:
    assert GroupSelection(("a", "b", "c")).absent({"b", "d"}) == ("a", "c")
    assert GroupSelection("a|b").absent(set()) == ()
