"""Topic selection and routing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.errors import Refused
from k2k_assets.pipeline.sections.routing import Routing
from k2k_assets.pipeline.sections.selection import TopicSelection
from k2k_assets_tests.pipeline.files import changed, load_text, refusal


def routing(topic: object) -> Routing:
    return Routing.model_validate({"topic": topic, "partition": "source"})


def test_a_pattern_matches_whole_names() -> None:
    selection = TopicSelection.model_validate({"topic": r"a\..*"})
    assert (selection.literal, selection.pattern) == (None, r"a\..*")
    assert [selection.matches(topic) for topic in ("a.b", "xa.b", "ab")] == [True, False, False]
    assert selection.describe() == r"topics that match 'a\..*'"


def test_a_list_is_literal() -> None:
    selection = TopicSelection.model_validate({"topic": ["a.b", "c"]})
    assert (selection.literal, selection.pattern) == (("a.b", "c"), None)
    assert [selection.matches(topic) for topic in ("a.b", "axb")] == [True, False]
    assert selection.describe() == "the topics a.b, c"


def test_a_pattern_with_exceptions_in_words() -> None:
    selection = TopicSelection.model_validate({"topic": "a.*", "exclude": ["ab", "ac"]})
    assert [selection.matches(topic) for topic in ("aa", "ab", "ac", "b")] == [True, False, False, False]
    assert selection.describe() == "topics that match 'a.*', but not ab, ac"
    selection = TopicSelection.model_validate({"topic": "a.*", "exclude": "a[bc]"})
    assert selection.describe() == "topics that match 'a.*', but not those that match 'a[bc]'"


def test_what_is_selected_belongs_to_the_code_version_as_before(tmp_path: Path) -> None:
    plain, again, narrower = (
        load_text(tmp_path, changed({"replication/0/source": {"topic": ".*", **more}}))
        for more in ({}, {"internalTopics": "disabled"}, {"exclude": ["a"]})
    )
    assert plain.code_version == again.code_version != narrower.code_version
    assert plain.selection.identity() == ".*"


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        (["a", "b", "a"], "replication[0].source.topic[2]: expected each topic once, found 'a'. It stands in the list"),
        ([], "replication[0].source.topic: expected one regular expression, or a list of topic names, found a list"),
        ([".*"], "replication[0].source.topic[0]: expected a topic name of letters"),
        (["a", 3], "replication[0].source.topic[1]: expected a topic name, found the number 3"),
        (["a", ""], "replication[0].source.topic[1]: expected a topic name of 1 to 249 characters"),
        ("(", "replication[0].source.topic: expected a regular expression"),
        (3, "expected one regular expression"),
        ({"a": 1}, "expected one regular expression, or a list of topic names, found a mapping"),
    ],
)
def test_what_is_no_selection(tmp_path: Path, topic: object, message: str) -> None:
    assert message in refusal(tmp_path, changed({"replication/0/source/topic": topic}))


@pytest.mark.parametrize(
    ("form", "target"),
    [
        ("source", "orders"),
        ({"prefix": "a."}, "a.orders"),
        ({"suffix": ".b"}, "orders.b"),
        ({"prefix": "a.", "suffix": ".b"}, "a.orders.b"),
        ({"static": "all"}, "all"),
        ({"staticMapping": {"orders": "x"}}, "x"),
        ({"staticMapping": {".*": "rest", "orders": "x"}}, "x"),
        ({"staticMapping": {"o.*": "first", ".*": "rest"}}, "first"),
        ({"staticMapping": [{"o.*": "first"}, {".*": "rest"}]}, "first"),
    ],
)
def test_target_topics(form: object, target: str) -> None:
    assert routing(form).target_topic("orders") == target


@given(st.dictionaries(st.text("ab.", min_size=1, max_size=3).filter(lambda n: n not in (".", "..")), st.just("t")))
def test_the_exact_name_counts_before_any_pattern(others: dict[str, str]) -> None:
    mapping = {**others, ".*": "t", "ab": "exact"}
    assert routing({"staticMapping": mapping}).target_topic("ab") == "exact"


def test_a_topic_without_a_target_is_refused() -> None:
    with pytest.raises(Refused, match="no entry for the selected topic 'b'"):
        routing({"staticMapping": {"a": "x"}}).target_topic("b")
    with pytest.raises(Refused, match="1 to 249 characters"):
        routing({"prefix": "p" * 200}).target_topic("x" * 50)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("target", "sink.topic: expected source, {prefix, suffix}, {static} or {staticMapping}, found 'target'"),
        ({}, "sink.topic: expected source"),
        ({"prefix": "a", "static": "b"}, "not several"),
        ({"prefix": ""}, "sink.topic.prefix: expected a text that is not empty"),
        ({"prefix": "a/"}, "sink.topic.prefix: expected a topic name of letters"),
        ({"static": ".."}, "sink.topic.static: expected a topic name of 1 to 249"),
        ({"static": 3}, "sink.topic.static: expected a text"),
        ({"regex": "a"}, "sink.topic.regex: expected source"),
        ({"staticMapping": {}}, "staticMapping: expected a mapping of source topics"),
        ({"staticMapping": {"a": "b c"}}, "staticMapping.a: expected a topic name of letters"),
        ({"staticMapping": {"a": None}}, "staticMapping.a: expected a topic name, found nothing"),
        ({"staticMapping": {"(": "b"}}, 'staticMapping."(": expected a topic name or a regular expression as the key'),
        ({"staticMapping": [{"a": "b"}, "c"]}, "staticMapping[1]: expected a mapping"),
    ],
)
def test_what_is_no_target(tmp_path: Path, form: object, message: str) -> None:
    assert message in refusal(tmp_path, changed({"replication/1/sink/topic": form}))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            {"topic": ["a", "b"], "exclude": ["b"]},
            "source.topic[1]: expected a topic that is not in `exclude`, found 'b'",
        ),
        ({"topic": ["ab"], "exclude": "a.*"}, "source.topic[0]: expected a topic that is not in `exclude`, found 'ab'"),
        ({"topic": ".*", "exclude": "("}, "source.exclude: expected a regular expression"),
        ({"topic": ".*", "exclude": ["a", "a"]}, "source.exclude[1]: expected each topic once"),
        ({"topic": ".*", "internalTopics": True}, "source.internalTopics: expected enabled or disabled"),
    ],
)
def test_what_is_no_exception(tmp_path: Path, source: object, message: str) -> None:
    said = refusal(tmp_path, changed({"replication/0/source": source}))
    assert f"replication[0].{message}" in said
    assert "faults" not in said


def test_partition(tmp_path: Path) -> None:
    def loaded(value: str) -> Any:
        return load_text(tmp_path, changed({"replication/1/sink/partition": value})).routing.partition

    assert [loaded("source"), loaded("producer")] == ["source", "producer"]
    assert "expected 'source' or 'producer'" in refusal(tmp_path, changed({"replication/1/sink/partition": "hash"}))
