"""The message of a failed step."""

from __future__ import annotations

import dagster as dg
import pytest

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.orchestration.failures import failures_as_messages, last_words


def test_an_error_for_the_user_becomes_the_failure() -> None:
    with pytest.raises(dg.Failure) as caught, failures_as_messages():
        raise ClusterUnreachable("the source cluster at a:1 does not answer")
    assert caught.value.description == "the source cluster at a:1 does not answer"


def test_a_spark_task_is_quoted_by_its_last_line() -> None:
    report = """An exception was thrown from the Python worker: Traceback (most recent call last):
  File "worker.py", line 1, in main
k2k_assets.kafka.offset_ranges.ReadStalled: reading a-0 stopped at 7
 SQLSTATE: 38000
"""
    assert last_words(report) == "k2k_assets.kafka.offset_ranges.ReadStalled: reading a-0 stopped at 7"
