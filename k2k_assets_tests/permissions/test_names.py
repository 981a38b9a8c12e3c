"""The ACL patterns of a selection cover all selected topics, and few others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.permissions.names import ALL, NamePattern, name_in, patterns_of
from k2k_assets.pipeline.java_regex import compile_java


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (["b", "a", "b"], ["b", "a"]),
        ("orders", ["orders"]),
        ("^orders$", ["orders"]),
        (r"orders\.eu", ["orders.eu"]),
        ("orders.*", ["orders..."]),
        (r"orders\..*", ["orders...."]),
        (r"\Qa.b\E.*", ["a.b..."]),
        ("ab?c", ["a..."]),
        ("ab*", ["a..."]),
        ("ab+", ["ab..."]),
        ("ab{2}", ["a..."]),
        (r"shop\d+", ["shop..."]),
        ("[ab]c", ["*"]),
        (".*", ["*"]),
        ("(?i)orders", ["*"]),
        ("a(?i)|b", ["*"]),
        ("orders|payments.*", ["orders", "payments..."]),
        (r"(orders|payments)\..*", ["orders....", "payments...."]),
        (r"(?:a|b)\.(x|y)", ["a.x", "a.y", "b.x", "b.y"]),
        ("a(?!b).*", ["a..."]),
        ("(a|b)?c", ["*"]),
        ("a.*|ab|b", ["a...", "b"]),
        ("a|.*", ["*"]),
        ("x[|]y", ["x..."]),
        (r"x\|y", ["x|y"]),
        ("|".join(f"t{number}" for number in range(200)), ["*"]),
    ],
)
def test_patterns_of_a_selection(selection: str | list[str], expected: list[str]) -> None:
    wanted = [NamePattern(name[:-3], True) if name.endswith("...") else NamePattern(name) for name in expected]
    assert patterns_of(selection) == wanted


_PIECES = st.sampled_from(
    ["a", "b", r"\.", ".", "ab", "[ab]", r"\w", "x?", "a*", "b+", "(a|b)", "(?:ab|x)", "|", r"\Qa.\E"]
)


@given(st.lists(_PIECES, min_size=1, max_size=6).map("".join), st.text("ab.x", max_size=6))
def test_whatever_is_selected_is_covered(regex: str, name: str) -> None:
    if compile_java(regex).matches(name):
        assert any(pattern.covers(name) for pattern in patterns_of(regex))


@given(st.lists(_PIECES, min_size=1, max_size=6).map("".join))
def test_each_pattern_covers_the_name_that_stands_for_it(regex: str) -> None:
    assert all(pattern.covers(name_in(pattern)) for pattern in patterns_of(regex))


def test_everything_covers_everything() -> None:
    """The pattern for all names, a literal name, and a prefix."""
    assert ALL.covers("orders")
    assert not NamePattern("orders").covers("orders.eu")
    assert NamePattern("orders", prefixed=True).covers("orders.eu")


def test_a_group_whose_name_is_a_star_is_not_every_group() -> None:
    """As a literal name of an ACL `*` means all; names that begin with it are the narrowest that covers it."""
    assert patterns_of(["*", "a"]) == [NamePattern("*", prefixed=True), NamePattern("a")]
    assert NamePattern("*", prefixed=True).covers("*")
    assert not NamePattern("*", prefixed=True).covers("a")
    assert name_in(NamePattern("*", prefixed=True)).startswith("*")
