"""Java's regular expressions in Python: the same matches on topic names; differences are refused."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.pipeline.java_regex import RegexError, _translate, compile_java

NAMES = st.text("abcABC019._-", min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (".*", ["a", "a.b"], []),
        ("orders", ["orders"], ["orders2", "my.orders"]),
        (r"a\.b|c", ["a.b", "c"], ["axb", "a.bc"]),
        (r"(?!internal\.).+", ["a", "internals"], ["internal.x"]),
        (r"\Qa.b\E-\d+", ["a.b-1"], ["axb-1", "a.b-x"]),
        (r"\Qa.b", ["a.b"], ["axb"]),
        (r"(?<team>a|b)\.\k<team>", ["a.a", "b.b"], ["a.b"]),
        (r"\p{Lower}+\P{Digit}", ["ab", "ab."], ["AB", "a1"]),
        (r"[\p{Alpha}_]+", ["aZ_"], ["a1"]),
        (r"\pL+", ["ab"], ["a1"]),
        (r"(?i)ORDERS", ["orders", "Orders"], ["order"]),
        (r"a++b", ["aab"], ["aa"]),
        (r"(?>a+)b", ["aab"], ["aa"]),
        (r"a\z", ["a"], ["a\n"]),
        (r"[^a]", ["b"], ["a"]),
        (r"[]a]+", ["]a"], ["b"]),
        (r"[\[\]a-c]+", ["[b]"], ["d"]),
        ("", [""], ["a"]),
    ],
)
def test_matches(pattern: str, matching: list[str], other: list[str]) -> None:
    compiled = compile_java(pattern)
    assert all(compiled.matches(name) for name in matching)
    assert not any(compiled.matches(name) for name in other)


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (r"\p{L}+", ["Müller", "Ελλάδα", "\U0001d49c"], ["a1", "a b"]),
        (r"[\p{L} ]+", ["Jürgen Müller"], ["Müller-Lüdenscheidt"]),
        (r"\P{L}", ["1", "€"], ["ü"]),
        (r"\p{Lu}\p{Ll}+", ["Ähre"], ["ähre", "ÄHRE"]),
        (r"\pL\p{IsAlphabetic}\p{IsL}", ["üßé"], ["ü1é"]),
        (r"\p{javaUpperCase}\p{IsLowercase}", ["Üü"], ["üÜ"]),
        (r"\p{IsLatin}+", ["Müller"], ["Ελλάδα"]),
        (r"\p{N}\p{Nd}\p{IsDigit}", ["½٣3"], ["aaa"]),
        (r"\p{P}", ["¿", "-"], ["a", "€"]),
        (r"\p{Alpha}+", ["abc"], ["Müller"]),
        (r"\p{Lower}\p{Upper}\p{Alnum}\p{Punct}", ["aA1!"], ["üA1!", "aÜ1!", "aAü!", "aA1¿"]),
        (r"\w\d\s", ["a1 "], ["ü1 ", "a٣ ", "a1\u2003"]),
        (r"(?i)ä|b", ["ä", "B"], ["Ä"]),
        (r"a.b", ["a b", "aüb"], ["a\nb", "a\rb", "a\u0085b", "a\u2028b", "a\u2029b"]),
        (r"(?s)a.b", ["a b", "a\nb", "a\rb"], ["ab"]),
        (r"a[.]b\.\Q.\E", ["a.b.."], ["a\rb.."]),
        (r"a\hb\v[\h\v]", ["a\u2003b\n\t", "a b\r\u2028"], ["a\nb\n ", "a b  "]),
    ],
)
def test_contents_of_records_are_any_text(pattern: str, matching: list[str], other: list[str]) -> None:
    """As Java 17 says of each of them."""
    compiled = compile_java(pattern, of_contents=True)
    assert [text for text in matching if not compiled.matches(text)] == []
    assert [text for text in other if compiled.matches(text)] == []


@pytest.mark.parametrize("pattern", ["a(?s:.)", "(?s:a.b)", "(?i)(?s).", "(?s-i:a)", "(?i-s:a)"])
def test_dots_that_match_line_ends_in_a_part_of_an_expression_are_refused(pattern: str) -> None:
    with pytest.raises(RegexError, match="flag s is supported at the beginning only"):
        compile_java(pattern, of_contents=True)
    compile_java("(?i)(?=s)(?<s>a)(?:s)(?>s)", of_contents=True)


@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        ("a[b", 1),
        ("(a", 0),
        ("a)", 1),
        ("*a", 0),
        (r"\Qxx\E[b", 6),
        ("[a-d[m-p]]", 4),
        ("[a-z&&[^b]]", 4),
        (r"a\p{Greek}", 1),
        (r"[\P{Digit}]", 1),
        ("a(?i)b", 1),
        ("a{2,1}", 2),
        ("(" * 5000, None),
        ("a{99999999999}", None),
    ],
)
def test_refusals_name_the_position(pattern: str, position: int | None) -> None:
    with pytest.raises(RegexError) as caught:
        compile_java(pattern)
    if position is not None:
        assert caught.value.position == position


def test_flags_that_contradict_each_other_are_a_fault_of_the_pattern() -> None:
    with pytest.raises(RegexError, match="flags are incompatible"):
        compile_java("(?u)orders")


@pytest.mark.parametrize("pattern", ["orders-{e}", "orders-{i}", "a{d}", "(a){s<=9}", "a{,3}", "a{ 1}", "{", "a{1"])
def test_braces_are_repetitions_or_refused_as_java_does(pattern: str) -> None:
    """In the engine's own language some of them allow errors in a match."""
    with pytest.raises(RegexError, match="illegal repetition"):
        compile_java(pattern)


@given(st.text("ab{}e1,[]()*+?|\\\\.-i<=", max_size=10), st.text("abe1.-{}", max_size=5))
def test_it_matches_what_python_s_own_engine_does(pattern: str, name: str) -> None:
    try:
        found = compile_java(pattern)
    except RegexError:
        return
    with warnings.catch_warnings(action="ignore"):
        expected = re.compile(_translate(pattern)[0], re.ASCII).fullmatch(name)
    assert found.matches(name) == (expected is not None)


@given(NAMES, NAMES)
def test_a_quoted_name_matches_itself_only(name: str, other: str) -> None:
    compiled = compile_java(rf"\Q{name}\E")
    assert compiled.matches(other) == (name == other)


@given(st.text(max_size=20))
def test_any_text_compiles_or_is_refused(pattern: str) -> None:
    try:
        compile_java(pattern).matches("orders")
    except RegexError as error:
        assert str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [("a[].]b", "a.b", True), ("a[].]b", "a]b", True), ("a[^].]b", "a.b", False), ("a[^].]b", "axb", True)],
)
@pytest.mark.parametrize("of_contents", [True, False])
def test_a_bracket_right_behind_the_beginning_of_a_class_is_one_of_it(
    pattern: str, text: str, found: bool, of_contents: bool
) -> None:
    assert compile_java(pattern, of_contents).matches(text) is found
