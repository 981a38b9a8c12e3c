"""Log lines as JSON."""

from __future__ import annotations

import json
import logging
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core import log_fields
from k2k_assets.core.json_logs import JsonFormatter, apply_asked, ask_for, format_of_call, is_json, line
from k2k_assets.core.log_fields import about, logged_with
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets_tests.support.suite.properties import examples


def record(message: str, *arguments: object, **more: Any) -> logging.LogRecord:
    made = logging.LogRecord("k2k.replication", logging.ERROR, "", 0, message, arguments, None)
    made.__dict__.update(more)
    return made


@pytest.fixture(autouse=True)
def _nothing_is_noted() -> None:
    log_fields.forget()


def test_fields_stand_beside_the_message() -> None:
    made = record("%s is stopped", TopicPartition("orders", 3), created=1795679177.457, **about(offset=7))
    with logged_with(pipeline="p", slot=2):
        assert json.loads(JsonFormatter().format(made)) == {
            "time": "2026-11-26T07:46:17.457Z",
            "level": "ERROR",
            "logger": "k2k.replication",
            "message": "orders-3 is stopped",
            "pipeline": "p",
            "slot": 2,
            "topic": "orders",
            "partition": 3,
            "offset": 7,
        }


def test_a_traceback_is_a_field() -> None:
    try:
        raise ValueError("why")
    except ValueError as error:
        made = record("it failed", exc_info=(ValueError, error, error.__traceback__))
    document = json.loads(JsonFormatter(str.upper).format(made))
    assert document["message"] == "IT FAILED"
    assert document["error"].splitlines()[-1] == "ValueError: why"


@given(st.text())
@examples(200)
def test_each_message_is_one_line(message: str) -> None:
    made = line(message, logging.WARNING, "k2k.cli")
    assert len(made.split("\n")) == 1
    assert json.loads(made)["message"] == message


def test_a_choice_ends_with_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("K2K_LOG_FORMAT", raising=False)
    with format_of_call():
        ask_for("json")
        assert not is_json()
        apply_asked()
        assert is_json()
    assert "K2K_LOG_FORMAT" not in os.environ
    monkeypatch.setenv("K2K_LOG_FORMAT", "json")
    with format_of_call():
        ask_for("text")
        apply_asked()
        assert not is_json()
    assert is_json()
