"""Stop reasons: their texts, and that no fact is lost between the slot and the display."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import pytest

from k2k_assets.core.stops import reasons
from k2k_assets.core.stops.catalog import ALL
from k2k_assets.core.stops.document import document_of, reason_of
from k2k_assets.core.stops.reason import KINDS, StopReason, codes_of, render, render_topic
from k2k_assets.core.stops.reasons.source_log import RecordsDeleted, SourceDiverged
from k2k_assets.core.stops.reasons.source_topic import SourceDeleted, SourceRecreated
from k2k_assets.core.stops.reasons.target_log import OpenTransaction
from k2k_assets.core.stops.reasons.target_topic import TargetDeleted
from k2k_assets.core.stops.reasons.unclassified import Unclassified
from k2k_assets.core.topic_partition import TopicPartition

P0, COPY = TopicPartition("orders", 0), TopicPartition("copy", 1)
EXAMPLES = [kind.example() for kind in ALL.values()]
# Examples in which some facts are absent or None.
OTHERS: list[StopReason] = [
    SourceDiverged(P0, 100, None, "truncation detected"),
    SourceDeleted("orders", while_copied=True),
    SourceRecreated("orders", "a", "b"),
    SourceRecreated("orders", "a", "b", while_copied=True),
    TargetDeleted("orders", "copy"),
    OpenTransaction(P0, COPY, 40, 55, 50, 70),
]


def test_codes_never_change() -> None:
    assert list(ALL) == [
        "records-deleted",
        "source-truncated",
        "start-outside-log",
        "source-diverged",
        "later-leader-epoch",
        "offset-out-of-range",
        "source-deleted",
        "source-recreated",
        "fewer-partitions",
        "topic-not-found",
        "source-hidden",
        "source-read-denied",
        "target-write-denied",
        "no-leader",
        "batch-unreadable",
        "header-key-not-utf8",
        "record-refused",
        "transform-failed",
        "dead-letters-deleted",
        "match-timed-out",
        "function-timed-out",
        "function-crashed",
        "function-not-loaded",
        "function-keeps-crashing",
        "schema-not-found",
        "registry-login-refused",
        "schema-of-other-topic",
        "schema-refused",
        "schema-id-missing",
        "target-deleted",
        "target-recreated",
        "no-target-topic",
        "target-truncated",
        "foreign-records",
        "open-transaction",
        "positions-lost",
        "position-unreadable",
        "unmarked-copies",
        "unclassified",
    ]


def test_the_catalog_has_the_kinds_of_all_files() -> None:
    files = {path.stem for path in Path(reasons.__path__[0]).glob("*.py")} - {"__init__"}
    assert {kind.__module__.rpartition(".")[2] for kind in ALL.values()} == files
    assert set(ALL.items()) == {item for item in KINDS.items() if item[1].__module__.startswith(reasons.__name__)}


def test_a_code_has_one_kind() -> None:
    with pytest.raises(TypeError, match="the code source-deleted is that of SourceDeleted"):

        class Again(SourceDeleted, code="source-deleted"):
            pass


@pytest.mark.parametrize("reason", [*EXAMPLES, *OTHERS], ids=lambda reason: reason.code)
def test_what_is_told(reason: StopReason) -> None:
    text = render(reason)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", reason.code)
    assert text == f"[{reason.code}] {render(reason, with_code=False)}"
    assert not re.search(r"\.\. |\.$|None|  ", text)
    assert all(written.strip().endswith(".") for written in (reason.meaning, reason.advice))


@pytest.mark.parametrize("reason", [*EXAMPLES, *OTHERS], ids=lambda reason: reason.code)
def test_it_crosses_processes_and_topics(reason: StopReason) -> None:
    document = json.loads(json.dumps(document_of(reason)))
    assert document["code"] == reason.code
    assert reason_of(document, "not looked at") == reason
    assert pickle.loads(pickle.dumps(reason)) == reason
    assert len({reason, reason_of(document, "")}) == 1


def test_the_document_is_the_documented_one() -> None:
    assert document_of(RecordsDeleted(P0, 3, 8)) == {
        "code": "records-deleted",
        "facts": {"source": {"topic": "orders", "partition": 0}, "position": 3, "logStart": 8},
    }


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (None, "unclassified"),
        ("a text", "unclassified"),
        ({"code": "found-next-year", "facts": {}}, "found-next-year"),
        ({"code": "records-deleted", "facts": {}}, "records-deleted"),
        ({"code": "records-deleted", "facts": None}, "records-deleted"),
        ({"code": "source-deleted", "facts": {"topic": 5}}, "source-deleted"),
        ({"code": "records-deleted"}, "records-deleted"),
    ],
)
def test_of_what_is_not_known_here_the_text_counts(document: object, code: str) -> None:
    reason = reason_of(document, "what was found. What to do")
    assert isinstance(reason, Unclassified)
    assert render(reason) == f"[{code}] what was found. What to do"
    assert render(reason_of(document_of(reason), render(reason, with_code=False))) == render(reason)


def test_facts_may_be_added() -> None:
    older = {"code": "source-deleted", "facts": {"topic": "orders"}}
    newer = {"code": "source-deleted", "facts": {"topic": "orders", "whileCopied": False, "since": 7}}
    assert reason_of(older, "") == reason_of(newer, "") == SourceDeleted("orders")


def test_a_topic_is_told_with_its_partitions() -> None:
    first, second = RecordsDeleted(P0, 3, 8), SourceDeleted("orders")
    assert render_topic("orders", {0: first, 4: second}) == f"orders-0: {render(first)}; orders-4: {render(second)}"
    assert render_topic("orders", {None: second}) == render(second)
    assert render_topic("orders", {}) == ""
    assert codes_of([first, second, second]) == "records-deleted, source-deleted"
