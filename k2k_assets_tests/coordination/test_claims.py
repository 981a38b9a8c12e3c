"""Fencing the holders of many ids, with the parallelism that the pipeline sets."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from k2k_assets.coordination import claims
from k2k_assets_tests.support.copies.pipelines import make_pipeline

IDS = [f"k2k.p.g.1.{n}" for n in range(6)]


@pytest.mark.parametrize("wanted", [2, 6])  # the default lies between them
def test_as_many_at_once_as_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: int) -> None:
    assignment = {"fencingMaxParallelism": wanted}
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["t"], coordination={"assignment": assignment})
    together = threading.Barrier(wanted)  # each waits for the others, so that fewer at once would hang
    lock = threading.Lock()
    at_work: set[str] = set()
    most: list[int] = []

    def claim(transactional_id: str, timeout: float, step: str) -> None:
        with lock:
            at_work.add(transactional_id)
            most.append(len(at_work))
        together.wait(10)
        with lock:
            at_work.remove(transactional_id)
        assert step == f"fencing {transactional_id}"

    monkeypatch.setattr(claims, "records_transport_of", lambda _: SimpleNamespace(claim=claim))
    claims.fence(pipeline, IDS)
    assert (max(most), len(most)) == (wanted, len(IDS))
