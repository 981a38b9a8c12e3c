"""How a slot's task ends when the slot cannot go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.slot import task
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.plans import slot_plan


class Fails:
    """A slot that cannot go on."""

    def __init__(self, _: Any) -> None: ...

    def run(self) -> None:
        raise Refused("it may not")


@pytest.mark.parametrize("is_written", [True, False])
def test_the_others_are_asked_to_end_or_the_job_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """Else they would copy on, the job would not end, and this slot's partitions would stand still unseen."""
    plan = slot_plan(make_pipeline(tmp_path, "a:1", "b:1", ["t"]), {TopicPartition("t", 0): 0})
    asked: list[int] = []

    def write_stop(_: Any, generation: int) -> None:
        if not is_written:
            raise ClusterUnreachable("the target does not answer")
        asked.append(generation)

    monkeypatch.setattr(task, "Slot", Fails)
    monkeypatch.setattr(task, "write_stop", write_stop)
    if is_written:
        result = task.copy_slot(plan)
        assert (result.error, result.message, asked) == ("Refused", "it may not", [plan.generation])
    else:
        with pytest.raises(RuntimeError, match=r"cannot go on: it may not\. Nor .*: the target does not answer"):
            task.copy_slot(plan)
