"""What a broker that goes takes with it is asked again, as long as there is time; nothing else is."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Uuid

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.kafka.cluster import Cluster


class Asked(Cluster):
    """A cluster that answers by a script: an error code, or None for the description.

    Attributes:
        answers: What comes next; the last one comes again and again.
        asked: How often it was asked.
    """

    def __init__(self, *answers: int | None, timeout: float = 30.0) -> None:
        super().__init__("source", {"bootstrap.servers": "127.0.0.1:1"}, timeout)
        self.answers = list(answers)
        self.asked = 0

    def _asked_to_describe(self, names: Collection[str], timeout: float) -> Mapping[str, Future[Any]]:
        self.asked += 1
        code = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return {name: _future(name, code) for name in names}


def _future(name: str, code: int | None) -> Future[Any]:
    future: Future[Any] = Future()
    if code is None:
        # Nobody else may hold the id: a reference too many is taken for the client's leak, and freed.
        future.set_result(SimpleNamespace(name=name, topic_id=Uuid(1, 2), partitions=[object()]))
    else:
        future.set_exception(KafkaException(KafkaError(code)))
    return future


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._DESTROY_BROKER, KafkaError.NETWORK_EXCEPTION])
def test_what_is_lost_is_asked_again(code: int) -> None:
    with Asked(code, code, None) as cluster:
        assert list(cluster.describe(["a"])) == ["a"]
        assert cluster.asked == 3


def test_only_as_long_as_there_is_time() -> None:
    with Asked(KafkaError._TRANSPORT, timeout=0.5) as cluster:
        began = time.monotonic()
        with pytest.raises(ClusterUnreachable, match="does not answer"):
            cluster.describe(["a", "b"])
        assert cluster.asked > 1
        assert 0.5 <= time.monotonic() - began < 5


@pytest.mark.parametrize("code", [KafkaError._AUTHENTICATION, KafkaError._TIMED_OUT])
def test_other_errors_are_told_at_once(code: int) -> None:
    with Asked(code, None) as cluster:
        with pytest.raises(ClusterUnreachable):
            cluster.describe(["a"])
        assert cluster.asked == 1
