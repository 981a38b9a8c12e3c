"""Slots over Spark Connect, whose server ends sessions."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from k2k_assets.spark import slot_engines
from k2k_assets.spark.slot_engines import ConnectSlots
from k2k_assets_tests.support.copies.pipelines import make_pipeline

CLOSED = "[INVALID_HANDLE.SESSION_CLOSED] The handle is invalid. Session was closed."
CHANGED = "[INVALID_HANDLE.SESSION_CHANGED] The existing Spark server driver instance has restarted."
GONE = "[NO_ACTIVE_SESSION] No active Spark session found."


class Session:
    """One that the server may have ended."""

    def __init__(self, error: str = "") -> None:
        self.error, self.is_stopped = error, False
        self.conf = SimpleNamespace(get=lambda name, default: default)

    def range(self, rows: int) -> Session:
        return self

    def collect(self) -> list[object]:
        if self.error:
            raise PySparkException(self.error)
        return []

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """Those that are made, in order; a slot job says which it ran in."""
    made: list[Session] = []

    def build(_: Any) -> Session:
        made.append(Session())
        return made[-1]

    monkeypatch.setattr(slot_engines, "build_session", build)
    monkeypatch.setattr(slot_engines, "run_slots", lambda session, plans: [made.index(session), *plans])
    return made


@pytest.mark.parametrize("error", [CLOSED, CHANGED, GONE])
def test_a_session_that_the_server_has_ended_is_replaced(tmp_path: Path, sessions: list[Session], error: str) -> None:
    slots: Any = ConnectSlots(make_pipeline(tmp_path, "a:1", "b:1", ["t"]))
    assert slots.run_slots(["plan"]) == [0, "plan"]
    sessions[0].error = error
    assert slots.run_slots(["plan"]) == [1, "plan"]
    assert sessions[0].is_stopped


def test_a_server_that_refuses_otherwise_is_told(tmp_path: Path, sessions: list[Session]) -> None:
    slots = ConnectSlots(make_pipeline(tmp_path, "a:1", "b:1", ["t"]))
    sessions[0].error = "[PERMISSION_DENIED] not you"
    with pytest.raises(PySparkException, match="not you"):
        slots.run_slots([])
    assert len(sessions) == 1
