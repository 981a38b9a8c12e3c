"""The result of a slot comes unchanged from Spark's workers to the driver."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from k2k_assets.core.stops.reasons.source_log import RecordsDeleted
from k2k_assets.core.stops.reasons.unclassified import Unclassified
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.slot.task import SlotResult
from k2k_assets.spark import slot_task

P0, P1, P2 = (TopicPartition("orders", partition) for partition in range(3))


def test_a_result_comes_back_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = {P0: RecordsDeleted(P0, 3, 8), P1: Unclassified("ein Grund, »so«")}
    result = SlotResult(0, "", "", stopped, {P2: "generation 9"})
    monkeypatch.setattr(slot_task, "copy_slot", lambda plan: result)
    monkeypatch.setattr(slot_task, "_prepare_worker", lambda: None)
    assert slot_task.run_slots(_Session(), [None]) == [result]  # type: ignore[arg-type, list-item]


class _Session:
    """As much of Spark as a job of one slot needs."""

    def range(self, *_: int) -> _Session:
        return self

    def mapInArrow(self, task: Any, ddl: str) -> _Session:  # noqa: N802
        self._batches: Iterator[pa.RecordBatch] = task([pa.RecordBatch.from_pydict({"id": [0]})])
        return self

    def collect(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(**row) for batch in self._batches for row in batch.to_pylist()]
