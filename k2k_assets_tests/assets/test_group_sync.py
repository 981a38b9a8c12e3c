"""A window of polling ends, whatever the clusters do."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from k2k_assets.assets import group_sync
from k2k_assets.errors import ClusterUnreachable
from k2k_assets.groups.poller import Poller
from k2k_assets.groups.report import PollResult
from k2k_assets.groups.versions import Version
from k2k_assets_tests.support.pipelines import make_pipeline


@pytest.mark.parametrize(("good_polls", "window"), [(0, 0.5), (2, 3.0)])
def test_a_cluster_that_does_not_answer_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good_polls: int, window: float
) -> None:
    polls: list[float] = []

    def poll(self: Poller) -> PollResult:
        polls.append(time.monotonic())
        if len(polls) > good_polls:
            raise ClusterUnreachable("it does not answer")
        return PollResult(Version(1, 2), committed=frozenset("g"))

    monkeypatch.setattr(Poller, "start", lambda self: None)
    monkeypatch.setattr(Poller, "poll", poll)
    pipeline = make_pipeline(tmp_path, "127.0.0.1:1", "127.0.0.1:1", "t", groups={"pollInterval": "50 milliseconds"})
    with pytest.raises(ClusterUnreachable, match="it does not answer"):
        group_sync.sync_groups(pipeline, window, print)
    assert len(polls) > good_polls + 1
    assert polls[-1] - polls[0] < 30
