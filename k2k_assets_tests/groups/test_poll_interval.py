"""How often the mapper looks, as the file says."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from k2k_assets.groups import mapper
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.polls import poll


class FirstPause(threading.Event):
    """Ends the mapper when it waits, and keeps for how long it would have."""

    seconds = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds = timeout or 0.0
        self.set()
        return True


def test_it_waits_until_the_interval_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SimpleNamespace(renew_if_disturbed=lambda: None)
    poller = SimpleNamespace(start=lambda: None, poll=lambda: poll({}))
    monkeypatch.setattr(mapper, "both_clusters", lambda *_: nullcontext((cluster, cluster)))
    monkeypatch.setattr(mapper, "Poller", lambda *_, **__: nullcontext(poller))
    monkeypatch.setattr(mapper, "mapper_heartbeats", lambda *_: None)
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", "t", groups={"pollInterval": "2 hours"})
    pause = FirstPause()
    mapper.sync(pipeline, pause)
    assert 7000 < pause.seconds <= 7200
