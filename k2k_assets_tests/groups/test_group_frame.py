"""The frame that names a group in a transactional commit."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from k2k_assets.core.errors import K2KError
from k2k_assets.groups.group_frame import GroupFrame
from k2k_assets.kafka import clients

PROPERTIES = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize("group", ["billing", "größe", "x" * 300])
def test_it_is_what_a_consumer_of_that_group_would_make(group: str) -> None:
    consumer = Consumer({**PROPERTIES, "group.id": group})
    try:
        assert GroupFrame(PROPERTIES).of(group) == consumer.consumer_group_metadata()
    finally:
        consumer.close()


class Unlike:
    """A consumer of a release that describes groups in another way."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def consumer_group_metadata(self) -> object:
        return self._answer

    def close(self) -> None:
        pass


@pytest.mark.parametrize("answer", [b"", b"a hash of the name", object()])
def test_another_form_is_refused(monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
    monkeypatch.setattr(clients, "consumer", lambda properties: Unlike(answer))
    with pytest.raises(K2KError, match=r"form that is not known"):
        GroupFrame(PROPERTIES)
