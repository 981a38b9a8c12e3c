"""An instance from one generation to the next."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from k2k_assets.core.errors import K2KError
from k2k_assets.replication.driver import instance as module
from k2k_assets.replication.driver.generations import Generations
from k2k_assets.replication.driver.instance import Instance
from k2k_assets.replication.driver.job_watch import JobWatch
from k2k_assets.replication.extent import UntilCaughtUp
from k2k_assets_tests.replication.driver.fakes import UNUSED, instance_on


def test_a_run_with_an_end_gives_up_however_long_its_jobs_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.0)
    failed = SimpleNamespace(
        failure=RuntimeError("an executor was lost"),
        superseded=None,
        superseded_by={},
        stopped={},
        raise_errors=lambda: None,
    )
    monkeypatch.setattr(module, "Job", lambda *_: failed)
    answers = [(Generations, "draw_next", []), (JobWatch, "until_done", False), (JobWatch, "ask_to_end", None)]
    for owner, name, answer in answers:
        monkeypatch.setattr(owner, name, lambda *_, answer=answer, **__: answer)
    monkeypatch.setattr(Instance, "_copied", lambda _: 0)
    run = instance_on(UNUSED, UNUSED, UntilCaughtUp())
    with pytest.raises(K2KError, match="the Spark job failed 5 times in a row: an executor was lost"):
        run.until_done(UNUSED, threading.Event())


def test_what_fails_for_days_is_tried_again_all_the_same() -> None:
    assert module._pause(5000) == 30.0
