"""How a slot handles the error that ends a session."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.slot.slot import Slot
from k2k_assets.transport.errors import Restart, RetryAtOnce
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.plans import slot_plan


@pytest.mark.parametrize(("trouble", "pauses"), [(RetryAtOnce("in another way"), 0), (Restart("it is away"), 1)])
def test_only_what_may_pass_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Restart, pauses: int
) -> None:
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", ["t"], features={"exactlyOnce": "enabled"})
    slot = Slot(slot_plan(pipeline, {TopicPartition("t", 0): 1}))
    session, wait = Mock(side_effect=[trouble, True]), Mock()
    monkeypatch.setattr(slot, "_session", session)
    monkeypatch.setattr(slot, "_wait", wait)
    assert slot.run().stopped.reasons == {}
    assert (session.call_count, wait.call_count) == (2, pauses)
