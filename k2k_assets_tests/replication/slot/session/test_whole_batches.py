"""Chunks that arrive as whole batches are only decoded if a stage or the sink needs columns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from k2k_assets.core.runs import Run
from k2k_assets.transport.capabilities import Capabilities
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import NotByTransport
from k2k_assets_tests.replication.slot.session.harness import P0, Harness, arrivals, pipeline_with
from k2k_assets_tests.support.memory.fake_records import ListRecords, WholeBatch
from k2k_assets_tests.support.memory.fake_transport import BY_BATCH

AS_THEY_CAME = {"headerReplication": "enabled", "keepRecordCreationTimestamp": "enabled"}


def copied(
    harness: Any, directory: Path, capabilities: Capabilities, **features: Any
) -> tuple[Harness, list[WholeBatch]]:
    """Copies six records with a gap between them; also the batches that the source has handed out."""
    made: Harness = harness(
        arrivals(0, 1, 2, 5, 6, 7), {P0: 8}, pipeline=pipeline_with(directory, **features), capabilities=capabilities
    )
    batches: list[WholeBatch] = []
    poll = made.source.poll

    def noting(limit: int, timeout: float) -> Any:
        polled = poll(limit, timeout)
        batches.extend(cast(WholeBatch, chunk.records) for chunk in polled.chunks)
        return polled

    made.source.poll = noting  # type: ignore[method-assign]
    return made.run(), batches


def chunks(made: Harness) -> list[Chunk]:
    return [chunk for transaction in made.copying for chunk in transaction.chunks]


def test_batches_that_nothing_is_done_to_arrive_as_they_came(harness: Any, tmp_path: Path) -> None:
    made, batches = copied(harness, tmp_path, BY_BATCH, **AS_THEY_CAME)
    assert [chunk.records for chunk in chunks(made)] == batches != []
    assert [batch.decodings for batch in batches] == [0] * len(batches)
    told = [run for t in made.copying for m in made.mappings(t) for target in m.targets for run in target.runs]
    assert told == [Run(0, 0, 3), Run(5, 3, 3)]
    last = made.commits(made.copying[-1], "release")[0]
    assert (last.position, last.records, last.bytes_) == (8, 6, sum(len(batch.raw) for batch in batches))


@pytest.mark.parametrize("feature", list(AS_THEY_CAME))
def test_what_a_setting_changes_in_records_is_left_to_the_sink(harness: Any, tmp_path: Path, feature: str) -> None:
    made, batches = copied(harness, tmp_path, BY_BATCH, **(AS_THEY_CAME | {feature: "disabled"}))
    assert [chunk.records for chunk in chunks(made)] == batches != []
    assert [batch.decodings for batch in batches] == [0] * len(batches)
    assert not any(chunk.keep_headers and chunk.keep_timestamps for chunk in chunks(made))


def test_they_are_decoded_once_for_a_sink_that_writes_records(harness: Any, tmp_path: Path) -> None:
    made, batches = copied(harness, tmp_path, replace(BY_BATCH, needs_decoding=True), **AS_THEY_CAME)
    assert all(isinstance(chunk.records, ListRecords) for chunk in chunks(made))
    assert [batch.decodings for batch in batches] == [1] * len(batches) != []


def test_a_stage_that_looks_into_them_leaves_them_decoded() -> None:
    """And whoever asks then gets what the stage has seen."""
    batch = WholeBatch(ListRecords([4, 5], [b"a", None]))
    chunk = Chunk(P0, batch, "t", 0)
    assert chunk.columns().keys() == [b"a", None]
    assert chunk.columns() is chunk.records
    assert batch.decodings == 1


def test_what_is_remembered_of_them_needs_no_look_into_them() -> None:
    batch = WholeBatch(ListRecords([4, 5, 9]))
    sent = Sent(Chunk(P0, batch, "t", 0))
    assert (list(sent.offsets), sent.count, batch.decodings) == ([4, 5, 9], 3, 0)


@pytest.mark.parametrize(("reports_batches", "most"), [(True, 1), (False, 3)])
def test_a_batch_is_one_run_also_where_others_write_if_it_lies_in_one_piece(
    harness: Any, tmp_path: Path, reports_batches: bool, most: int
) -> None:
    capabilities = replace(BY_BATCH, reports_batches=reports_batches)
    made = harness(
        arrivals(0, 1, 2), {P0: 3}, pipeline=pipeline_with(tmp_path), one_to_one=False, capabilities=capabilities
    )
    made.session.start()
    transactions = made.session._transactions
    transactions.write(Chunk(P0, WholeBatch(ListRecords([0, 1, 2])), "t", 0), made.clock.now)
    assert transactions.possible_runs == most


@pytest.mark.parametrize("exactly_once", ["enabled", "disabled"])
def test_what_is_in_hand_is_committed_before_another_transport_takes_over(
    harness: Any, tmp_path: Path, exactly_once: str
) -> None:
    """Else records that are under way outside transactions could come behind those of the other one."""
    made = harness(arrivals(0, 1), {P0: 2}, pipeline=pipeline_with(tmp_path, exactlyOnce=exactly_once))
    made.source.knows_more = lambda: True  # so that nothing is due yet
    poll, polls = made.source.poll, []

    def old_format_behind(limit: int, timeout: float) -> Any:
        polls.append(made.session.has_records)
        if len(polls) > 1:
            raise NotByTransport(["records in the format of Kafka before 0.11 (magic 1)"])
        return poll(limit, timeout)

    made.source.poll = old_format_behind
    with pytest.raises(NotByTransport):
        made.run()
    assert polls == [False, True]
    assert [record.position for t in made.copying for record in made.commits(t, "commit")] == [2]
