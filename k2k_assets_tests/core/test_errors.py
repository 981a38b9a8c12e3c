"""Messages of errors, also of errors without a message."""

from __future__ import annotations

import pytest

from k2k_assets.control.assignment_tail import AssignmentTopicLost
from k2k_assets.core.errors import ClusterUnreachable, Hidden, K2KError, NotAllowed, Superseded, kind_of, message_lines
from k2k_assets.kafka.topic_follower import Replaced
from k2k_assets.replication.driver.job import Job
from k2k_assets.replication.slot.task import SlotResult
from k2k_assets.transport.errors import TimeoutTooLong


class OfADeadJvm(Exception):
    """As py4j's: it asks the Java process for its words."""

    def __str__(self) -> str:
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("\n  one\n\ntwo  "), ["one", "two"]),
        (ValueError(), ["ValueError"]),
        (OfADeadJvm(), ["OfADeadJvm"]),
    ],
)
def test_an_error_always_has_words(error: Exception, words: list[str]) -> None:
    assert message_lines(error) == words


@pytest.mark.parametrize(
    "error",
    [
        Hidden("it is hidden", "orders"),
        NotAllowed("no"),
        Superseded("newer"),
        ClusterUnreachable("away"),
        TimeoutTooLong("60000 is too long"),
        AssignmentTopicLost("another one"),
        Replaced("created anew"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_ends_a_slot_ends_its_run_in_the_same_way(error: K2KError) -> None:
    """Only the name of a class and the words come from a worker."""
    job = Job(lambda _: [], [])
    job._results = [SlotResult(0, kind_of(error), str(error), {}, {})]
    if isinstance(error, Superseded):
        assert job.superseded == str(error)
        return
    with pytest.raises(K2KError, match=str(error)) as raised:
        job.raise_errors()
    assert raised.value.exit_code == error.exit_code
