"""Variables in the file: sources of values, limits of values, and that no message shows one."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.errors import PipelineFileError
from k2k_assets.pipeline import load_pipeline
from k2k_assets.pipeline.parsing.document import parse_document
from k2k_assets.pipeline.parsing.problems import DocumentError
from k2k_assets.pipeline.parsing.substitution import substitute
from k2k_assets.pipeline.parsing.variables import MAX_VALUE_BYTES
from k2k_assets_tests.pipeline.files import TUTORIAL, load_text, refusal

HOSTILE = 'x"}]: \'\n- &a [*a, !!tag {"\\u0000\n# ${NOPE} $${ | >\n---\n%YAML'


def plain(text: str) -> object:
    return parse_document(substitute(text, "f.yaml"), "f.yaml").plain()


def refused(text: str) -> str:
    with pytest.raises(DocumentError) as caught:
        plain(text)
    return str(caught.value)


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"WORD": "orders", "NUMBER": "12", "FLAG": "true", "EMPTY": "", "LIST": "[1, {b: c}]", "HOSTILE": HOSTILE}
    encoded = {"ENCODED": base64.b64encode(HOSTILE.encode()).decode(), "BINARY": base64.b64encode(b"\xff").decode()}
    for name, value in {**known, **encoded, "env": "named as a loader"}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("variables")
@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("${WORD}", "orders"),
        ("${env:WORD}", "orders"),
        ("${string:WORD}", "orders"),
        ("'${env:string:WORD}'", "orders"),
        ('"${WORD}-${WORD}.${NUMBER}"', "orders-orders.12"),
        ("${WORD}-x", "orders-x"),
        ("[${WORD}, '${WORD}']", ["orders", "orders"]),
        ("{b: ${WORD}}", {"b": "orders"}),
        ("${NUMBER}", "12"),
        ("${number:NUMBER}", 12),
        ("'${number:NUMBER}'", "12"),
        ("${raw:NUMBER}", 12),
        ("${FLAG}", "true"),
        ("${raw:FLAG}", True),
        ("${EMPTY}", ""),
        ("${raw:LIST}", [1, {"b": "c"}]),
        ("${LIST}", "[1, {b: c}]"),
        ("${HOSTILE}", HOSTILE),
        ("'${HOSTILE}'", HOSTILE),
        ('"${string:HOSTILE}"', HOSTILE),
        ("|\n  ${HOSTILE}", HOSTILE),
        ("${base64:ENCODED}", HOSTILE),
        ("${env:base64:string:ENCODED}", HOSTILE),
        ("${env}", "named as a loader"),
        ("${env:env}", "named as a loader"),
        ("$${WORD}", "${WORD}"),
        ("$$${WORD}", "$${WORD}"),
        ("a$b $$ {}", "a$b $$ {}"),
        ("1 # ${MISSING_BUT_NOT_USED}", 1),
    ],
)
def test_what_stands_in_the_place_of_a_variable(written: str, read: object) -> None:
    assert plain(f"a: {written}") == {"a": read}


@pytest.mark.parametrize(("content", "read"), [("s3cret", "s3cret"), ("s\n", "s"), ("s\r\n", "s"), ("s\n\n", "s\n")])
def test_a_file_is_taken_as_it_is_but_for_its_last_line_break(tmp_path: Path, content: str, read: str) -> None:
    path = tmp_path / "a:b"
    path.write_text(content, newline="")
    assert plain(f"a: ${{file:{path}}}") == {"a": read}


@pytest.mark.usefixtures("variables")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: '${value'\nc: {}\n", "f.yaml:2:5: a variable is opened by `${` and not closed on the same line"),
        ("a: 1 # ${value", "f.yaml:1:8: a variable is opened"),
        ("a: { b: ${WORD, c: 1 }\n", "f.yaml:1:9: a variable is opened by `${` and not closed on the same line"),
        ('a: { b: "${WORD", c: "}" }\n', "f.yaml:1:10: a variable is opened"),
        ("a: 1\nb: ${WORD and ${WORD}\n", "f.yaml:2:4: a variable is opened"),
        ("a: { b: ${file:/run/word, c: 1 }\n", "f.yaml:1:9: a variable is opened"),
        ("a: 1\n${WORD}: 2\n", "f.yaml:2:1: ${WORD} stands in a key; write the key out"),
        ("a: ${raw:HOSTILE}\n", "${raw:HOSTILE} stands in the file as raw text"),
    ],
)
def test_files_that_are_refused_as_a_whole(text: str, message: str) -> None:
    assert message in refused(text)


@pytest.mark.usefixtures("variables")
@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("b: {c: '${WORD}', d: 1, d: 2}", (1, 19), (1, 25)),
        ("b: {c: ${raw:WORD}, d: 1, d: 2}", (1, 21), (1, 27)),
        ("b: {c: '$${x', d: 1, d: 2}", (1, 16), (1, 22)),
        ("b: {c: ${WORD}, e: '${WORD}${WORD}', d: 1, d: 2}", (1, 38), (1, 44)),
        ("a: ${WORD}\nb: {c: 1, d: 1, d: 2}", (2, 11), (2, 17)),
        ("a: ${raw:LINES}\nb: {d: 1, d: 2}", (2, 5), (2, 11)),
        ("a: ${raw:LINES} \nb: {c: ${WORD}, d: 1, d: 2}", (2, 17), (2, 23)),
    ],
)
def test_places_are_those_of_the_file(
    text: str, first: tuple[int, int], second: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINES", "1\nlonger: 2\nx: 3")
    (line, column), (again, behind) = first, second
    assert refused(text) == f"f.yaml:{again}:{behind}: b.d: duplicate key, first at f.yaml:{line}:{column}"


def test_in_a_comment_a_brace_closes_what_it_can(tmp_path: Path) -> None:
    assert plain("a: 1 # { b: ${WORD, c: 1 }") == {"a": 1}
    path = tmp_path / "a file"
    path.write_text("read")
    assert plain(f"a: ${{file:{path}}}") == {"a": "read"}


@pytest.mark.usefixtures("variables")
@pytest.mark.parametrize(
    ("variable", "why"),
    [
        ("${MISSING}", "the environment has no variable 'MISSING'"),
        ("${}", "the name of the variable is missing"),
        ("${vault:WORD}", "'vault' is neither a loader nor a mapper; the loaders are env, file, the mappers base64"),
        ("${file:relative}", "expected the absolute path of a file"),
        ("${file:/does/not/exist}", "the file cannot be read: No such file or directory"),
        ("${file:/}", "it is not a regular file"),
        ("${file:/dev/zero}", "it is not a regular file"),
        ("${number:WORD}", "the value is not a number"),
        ("${base64:HOSTILE}", "the value is not base 64"),
        ("${base64:BINARY}", "the value is not UTF-8 text"),
    ],
)
def test_a_variable_without_a_value_is_named_where_it_is_used(tmp_path: Path, variable: str, why: str) -> None:
    text = TUTORIAL.replace('"src:9092"', f'"{variable}"')
    assert refusal(tmp_path, text) == f'0.yaml:8:17: source.kafka.common."bootstrap.servers": {variable}: {why}' + (
        ", number, raw, string" if "vault" in variable else ""
    )


def test_no_pipe_is_waited_for_and_no_huge_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(100_000_000)
    for name, why in (("pipe", "it is not a regular file"), ("huge", "the file is larger than 1000000 bytes")):
        assert why in refusal(tmp_path, TUTORIAL.replace('"src:9092"', f"${{file:{tmp_path / name}}}"))


def test_what_is_not_used_may_be_missing(tmp_path: Path) -> None:
    text = TUTORIAL.replace('token: "..."', "token: ${MISSING_TOKEN}").replace('"src:9092"', '"${MISSING}"')
    later = 'source: { kafka: { common: { "bootstrap.servers": "other:9092" } } }\n'
    pipeline = load_text(tmp_path, text, later)
    assert pipeline.client_properties("source", "admin")["bootstrap.servers"] == "other:9092"


SECRET = "hunter2-correct-horse"
PLACES = [
    TUTORIAL.replace('"my-pipeline"', "[${SECRET}]"),
    TUTORIAL.replace("autoCreateTopics: enabled", "autoCreateTopics: ${SECRET}"),
    TUTORIAL.replace("partition: source }", "partition: ${SECRET} }"),
    TUTORIAL.replace("partition: source }", "partition: '${SECRET} and more' }"),
    TUTORIAL.replace("topic: source,", "topic: { static: '${SECRET}/${SECRET}' },"),
    TUTORIAL.replace('".*"', "'(${SECRET}'"),
    TUTORIAL.replace('".*"', "['${SECRET}?']"),
    TUTORIAL.replace('"group.id"', '"fetch.max.bytes": ${SECRET}, "group.id"'),
    TUTORIAL.replace('"group.id"', '"isolation.level": ${raw:SECRET}, "group.id"'),
    TUTORIAL.replace('"group.id"', '"sasl.jaas.config": "${SECRET}", "group.id"'),
    TUTORIAL.replace('"group.id"', '"sasl.jaas.config": "a.PlainLoginModule required x=\'${SECRET}", "group.id"'),
    TUTORIAL.replace('"tgt:9092" }', '"tgt:9092" }\n    producer: { "acks": "${SECRET}" }'),
    TUTORIAL.replace("consumer:", "consumer: ${SECRET}\n    admin:"),
    TUTORIAL.replace("consumer:", "consumer: *${raw:SECRET}\n    admin:"),
    TUTORIAL.replace("consumer:", "consumer: !${raw:SECRET} 1\n    admin:"),
    TUTORIAL + "coordination: { commit: { topic: '${SECRET}' } }\noffsetMapping: { topic: '${SECRET}' }\n",
    TUTORIAL + "sync: { window: '${SECRET}' }\n",
    TUTORIAL + "index: { path: ${SECRET} }\nspark: { config: { a: ${SECRET}, b: [1] } }\n",
]


@pytest.mark.parametrize("text", PLACES, ids=range(len(PLACES)))
@pytest.mark.parametrize("exactly_once", [True, False])
def test_no_message_shows_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, exactly_once: bool
) -> None:
    monkeypatch.setenv("SECRET", SECRET)
    if exactly_once:
        text = text.replace("features:", "features:\n  exactlyOnce: enabled")
    path = tmp_path / "f.yaml"
    path.write_text(text)
    try:
        pipeline = load_pipeline(path)
        shown = f"{pipeline.warnings}"
    except PipelineFileError as error:
        shown = f"{error}"
    assert SECRET not in shown
    assert "hunter2" not in shown


@pytest.mark.parametrize("value", ["abc", "7"])
def test_short_values_are_not_shown_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SHORT", value)
    shown = refusal(tmp_path, TUTORIAL.replace("partition: source", "partition: ${SHORT}"))
    assert shown == (
        "0.yaml:15:30: replication[1].sink.partition: expected 'source' or 'producer', found the value of ${SHORT}"
    )


def test_credentials_are_in_no_repr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", SECRET)
    pipeline = load_text(tmp_path, TUTORIAL.replace('"group.id"', '"sasl.password": "${SECRET}", "group.id"'))
    assert pipeline.client_properties("source", "consumer")["sasl.password"] == SECRET
    assert SECRET not in repr(pipeline) + str(pipeline)


def test_lines_are_the_files_own_after_raw_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOCK", "\n  headerReplication: enabled\n  exactlyOnce: enabled")
    text = TUTORIAL.replace("features:", "features:${raw:BLOCK}").replace("partition: source", "partition: wrong")
    assert "0.yaml:15:30: replication[1].sink.partition" in refusal(tmp_path, text)
    assert load_text(tmp_path, text.replace("wrong", "source")).features.exactly_once


def test_switched_off_a_variable_is_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(TUTORIAL.replace('"group.id"', '"sasl.password": "${SECRET", "group.id"'))
    pipeline = load_pipeline(path, variables=False)
    assert pipeline.client_properties("source", "consumer")["sasl.password"] == "${SECRET"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("mapper", ["", "raw:"])
def test_hostile_values_are_given_up_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mapper: str) -> None:
    bomb = "[&a [x, x], &b [*a, *a], " + ", ".join(f"&c{n} [{'*b, ' * 50}*b]" for n in range(2000)) + "]"
    for name, value in {"bomb": bomb, "deep": "[" * 400_000, "big": "x" * MAX_VALUE_BYTES}.items():
        (tmp_path / name).write_text(value)
    texts = [f"a: ${{file:{mapper}{tmp_path / name}}}\n" for name in ("bomb", "deep", "big")]
    texts += ["a: " + "${N}" * 100_000, "a: '" + "${" * 200_000, "a: " + "$${" * 200_000 + "'", texts[2] * 2]
    monkeypatch.setenv("N", "1")
    given_up = 0
    for text in texts:
        try:
            plain(text)
        except DocumentError:
            given_up += 1
    assert given_up >= (5 if mapper else 3)


@given(st.text(max_size=60).filter(lambda value: "\x00" not in value), st.sampled_from(["a: {}", "a: '{}'", 'a: "{}"']))
def test_any_value_arrives_unchanged(value: str, around: str) -> None:
    encoded = value.encode("utf-8", "surrogatepass")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANY", base64.b64encode(encoded).decode())
        try:
            encoded.decode()
        except UnicodeDecodeError:
            return
        assert plain(around.format("${base64:ANY}")) == {"a": value}
