"""YAML to a tree with lines: accepted and refused documents, and quick refusal of hostile files."""

from __future__ import annotations

import contextlib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.pipeline.parsing import document
from k2k_assets.pipeline.parsing.document import parse_document
from k2k_assets.pipeline.parsing.problems import DocumentError


def plain(text: str) -> object:
    return parse_document(text, "f.yaml").plain()


def refused(text: str) -> str:
    with pytest.raises(DocumentError) as caught:
        parse_document(text, "f.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("on", "on"),
        ("", None),
        ("~", None),
        ("'true'", "true"),
        ('"12"', "12"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("12", 12),
        ("-3", -3),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("10:30", "10:30"),
        ("localhost:9092", "localhost:9092"),
        ("2024-01-01", "2024-01-01"),
        ("|\n  two\n  lines", "two\nlines"),
        ("[1, a]", [1, "a"]),
        ("{b: {c: 1}}", {"b": {"c": 1}}),
    ],
)
def test_scalars_follow_yaml_1_2(written: str, read: object) -> None:
    assert plain(f"a: {written}") == {"a": read}


def test_every_key_knows_its_line() -> None:
    root = parse_document("# c\na:\n  b:\n\n    - x\n    - y: 1\n", "f.yaml")
    assert [root.at(path).line for path in [("a",), ("a", "b"), ("a", "b", 0), ("a", "b", 1, "y")]] == [2, 3, 5, 6]
    assert [root.at(path).column for path in [("a",), ("a", "b"), ("a", "b", 0), ("a", "b", 1, "y")]] == [1, 3, 7, 7]
    assert root.at(("a", "missing", "deep")).line == 2


def test_anchors_and_merge_keys() -> None:
    text = "base: &base {x: 1, y: 2}\nother: &other {y: 3, z: 4}\na:\n  <<: [*base, *other]\n  x: 9\nb: *base\n"
    document = plain(text)
    assert isinstance(document, dict)
    assert document["a"] == {"x": 9, "y": 2, "z": 4}
    assert document["b"] == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f.yaml:1:1: expected a mapping (`name: ...`), found an empty file"),
        ("---\n", "found an empty document"),
        ("- a\n", "f.yaml:1:1: expected a mapping"),
        ("just text", "f.yaml:1:1: expected a mapping"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1: a second YAML document begins here"),
        ("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n", "f.yaml:4:3: b.c: duplicate key, first at f.yaml:3:3"),
        ("a: 1\na: 3\n", "f.yaml:2:1: a: duplicate key, first at f.yaml:1:1"),
        ("a: [1, 2\nb: 3\n", "f.yaml:2:2: not valid YAML"),
        ("a: \tb: c\n", "not valid YAML"),
        ("a: *nobody\n", "f.yaml:1:4: the alias '*nobody' has no anchor before it"),
        ("a: &a [*a]\n", "f.yaml:1:8: the alias '*a' contains itself"),
        ("a: !!python/object/apply:os.system [ls]\n", "is not accepted; write plain values"),
        ("a: !mine 1\n", "the tag '!mine' is not accepted"),
        ("? [a]\n: 1\n", "expected a plain key"),
        ("a: {<<: 3}\n", "expected a mapping or a list of mappings after '<<'"),
        ("a: \x01\n", "not valid YAML"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    assert message in refused(text)


def test_a_syntax_error_quotes_nothing_of_the_file() -> None:
    assert "hunter2" not in refused("password: hunter2\n  bad: 'hunter2\n")


@pytest.mark.parametrize(
    "written", ["!Hunter2", "!Hunter2 x", "!!Hunter2", "!<Hunter2>", "*Hunter2", "&Hunter2", "&Hunter2 [*Hunter2]"]
)
def test_a_password_that_yaml_takes_for_something_else_is_not_shown(written: str) -> None:
    for key in ('"sasl.password": ', "secrets:\n  - "):
        said = refused(f"a: 1\n{key}{written}\n")
        assert "Hunter2" not in said
        sign = "*" if "*" in written else written[0]
        assert f"a value that begins with '{sign}' must be quoted" in said
        lines = f"{key}{written}".split("\n")
        column = lines[-1].rindex("*Hunter2" if "*" in written else written) + 1
        assert said.startswith(f"f.yaml:{1 + len(lines)}:{column}: ")


def test_a_section_of_client_properties_may_be_a_password_too() -> None:
    assert "Hunter2" not in refused("source: {kafka: {consumer: *Hunter2}}\n")


def test_an_anchor_at_a_password_is_fine_where_a_value_follows() -> None:
    text = 'password: &one hunter\ntoken: *one\nsecret: &none ""\nother: &empty\n'
    assert plain(text) == {"password": "hunter", "token": "hunter", "secret": "", "other": None}


@pytest.mark.parametrize("loader", [yaml.SafeLoader, document._LOADER])
def test_a_password_with_two_exclamation_marks_is_not_shown(loader: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "_LOADER", loader)
    said = refused("password: !Hunter!2\n")
    assert "f.yaml:1:11: not valid YAML: found undefined tag handle" in said
    assert "Hunter" not in said


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "a: " + "[" * 400_000,
        "a: " + "{a: " * 200_000,
        "a: " + "- " * 400_000,
        "a: &a\n" + "".join(f"{'  ' * depth}k:\n" for depth in range(1, 900)),
        "a: [" + "x," * 400_000 + "]",
        "".join(f"k{n}: 1\n" for n in range(80_000)),
        "a: " + "x" * 900_000 + "\n- b",
    ],
    ids=["aliases", "flow lists", "flow maps", "block lists", "block maps", "long list", "many keys", "long text"],
)
@pytest.mark.timeout(60)  # it takes half a second or hours
def test_hostile_documents_are_given_up_at_once(text: str) -> None:
    refused(text)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(DocumentError):
        assert isinstance(parse_document(text, "f.yaml").value, dict)
