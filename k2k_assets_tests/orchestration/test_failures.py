"""The message of a failed step."""

from __future__ import annotations

import dagster as dg
import pytest
from pyspark.errors import PythonException

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.orchestration.failures import failures_as_messages


def test_an_error_for_the_user_becomes_the_failure() -> None:
    with pytest.raises(dg.Failure) as caught, failures_as_messages():
        raise ClusterUnreachable("the source cluster at a:1 does not answer")
    assert caught.value.description == "the source cluster at a:1 does not answer"


def test_the_error_of_a_spark_task_becomes_the_failure() -> None:
    with pytest.raises(dg.Failure) as caught, failures_as_messages():
        raise PythonException(
            "An exception was thrown from the Python worker: Traceback (most recent call last):\n"
            '  File "worker.py", line 1, in main\n'
            "k2k_assets.kafka.offset_ranges.ReadStalled: reading a-0 stopped at 7\n SQLSTATE: 38000\n"
        )
    assert caught.value.description == "k2k_assets.kafka.offset_ranges.ReadStalled: reading a-0 stopped at 7"
