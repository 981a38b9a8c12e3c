"""How often the clusters are asked for those who look."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.pipeline import Pipeline
from k2k_assets.server import watch as module
from k2k_assets.server.watch import PipelineWatch
from k2k_assets.status.copy_status import CopyStatus
from k2k_assets_tests.support.copies.pipelines import make_pipeline

STATUS = CopyStatus(1, [], None)


class Counted:
    """Clients that are counted."""

    def __init__(self) -> None:
        self.opened = self.closed = self.reads = 0
        self.error: ClusterUnreachable | None = None

    def __call__(self, _: Pipeline) -> Counted:
        self.opened += 1
        return self

    def read(self) -> CopyStatus:
        self.reads += 1
        if self.error:
            raise self.error
        return STATUS

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return make_pipeline(tmp_path, "s:1", "t:1", ["orders"])


def test_many_who_look_cost_one_look(pipeline: Pipeline) -> None:
    clients = Counted()
    watch = PipelineWatch(pipeline, clients)  # type: ignore[arg-type]
    assert [watch.refresh().status for _ in range(20)] == [STATUS] * 20
    assert (clients.opened, clients.reads) == (1, 1)
    watch.invalidate()
    watch.refresh()
    assert (clients.opened, clients.reads) == (1, 2)


def test_after_an_error_new_clients_are_opened_and_the_last_status_stays(pipeline: Pipeline) -> None:
    clients = Counted()
    watch = PipelineWatch(pipeline, clients)  # type: ignore[arg-type]
    watch.refresh()
    clients.error = ClusterUnreachable("away")
    watch.invalidate()
    found = watch.refresh()
    assert (found.status, found.error) == (STATUS, "away")
    assert clients.closed == 1
    clients.error = None
    watch.invalidate()
    assert (watch.refresh().error, clients.opened) == ("", 2)


def test_clients_of_what_nobody_looks_at_are_closed(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Counted()
    watch = PipelineWatch(pipeline, clients)  # type: ignore[arg-type]
    watch.refresh()
    watch.close_if_idle()
    assert clients.closed == 0
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.0)
    watch.close_if_idle()
    assert clients.closed == 1


def test_a_watch_whose_file_has_changed_opens_no_clients_any_more(pipeline: Pipeline) -> None:
    clients = Counted()
    watch = PipelineWatch(pipeline, clients)  # type: ignore[arg-type]
    watch.refresh()
    watch.retire()
    watch.invalidate()
    assert watch.refresh().status == STATUS
    assert (clients.opened, clients.closed) == (1, 1)
