"""Errors of the client library as errors of this project; without a broker."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from k2k_assets.core.errors import NotAllowed, Refused
from k2k_assets.core.words import ACLS_HINT
from k2k_assets.kafka import clients


@pytest.mark.parametrize(
    ("code", "kind", "advice"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, NotAllowed, f". {ACLS_HINT}"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, NotAllowed, f". {ACLS_HINT}"),
        (KafkaError.MSG_SIZE_TOO_LARGE, Refused, ""),
    ],
)
def test_what_a_cluster_refuses(code: int, kind: type[Refused], advice: str) -> None:
    error = KafkaError(code)
    refusal = clients.refused("writing to 'metrics' failed", error)
    assert type(refusal) is kind
    assert str(refusal) == f"writing to 'metrics' failed: {error.str()} ({error.name()}){advice}"
