"""Only the newest holder of a transactional id can write, even if an older one has an open transaction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.errors import Fenced, Restart, Undeliverable
from k2k_assets_tests.support.brokers.kafka import SECONDS, end_offsets
from k2k_assets_tests.transport.conformance.ends import BATCH_BYTES, Ends, RealEnds, all_read, write_all


def _another_sink(ends: Ends) -> None:
    ends.transport.open_sinks(True, BATCH_BYTES).open_sink(ends.transactional_id).open()


def _control_writer(ends: Ends) -> None:
    ends.transport.open_control_writer(ends.transactional_id).open()


def _claim(ends: Ends) -> None:
    ends.transport.claim(ends.transactional_id, SECONDS, "fencing")


@pytest.mark.parametrize("fence", [_another_sink, _control_writer, _claim])
def test_who_is_fenced_can_commit_nothing(ends: Ends, fence: Callable[[Ends], None]) -> None:
    ends.write(5)
    old = ends.transport.open_sinks(True, BATCH_BYTES).open_sink(ends.transactional_id)
    old.open()
    write_all(old, all_read(ends))
    old.write_control(ends.target_topic, 0, b"position", b"from a zombie")
    fence(ends)
    with pytest.raises(Fenced):
        old.commit()
    old.close()
    assert ends.copied() == []
    assert b"from a zombie" not in ends.controls(ends.target_topic)


def test_a_control_writer_that_is_fenced_can_commit_nothing(ends: Ends) -> None:
    old = ends.transport.open_control_writer(ends.transactional_id)
    old.open()
    old.begin()
    old.write_control(ends.target_topic, 0, b"{}", b"from a zombie")
    _claim(ends)
    with pytest.raises(Fenced):
        old.commit()
    old.close()
    assert ends.controls(ends.target_topic) == []


def test_who_is_fenced_between_two_chunks_says_so(ends: Ends) -> None:
    """As an error of the transport, not of a library, out of whatever comes next."""
    ends.write(50)
    chunks = all_read(ends)
    old = ends.transport.open_sinks(True, BATCH_BYTES).open_sink(ends.transactional_id)
    old.open()
    write_all(old, chunks)
    _control_writer(ends)

    def go_on() -> None:
        for chunk in chunks:
            old.write(chunk)
        old.settle()
        old.commit()

    with pytest.raises((Restart, Undeliverable)):
        go_on()
    old.close()
    assert ends.copied() == []


def test_what_the_fenced_one_left_open_is_aborted(clusters: KafkaSandbox, tmp_path: Path, real_transport: str) -> None:
    ends = RealEnds(real_transport, clusters, tmp_path)
    ends.write(5)
    dead = ends.transport.open_sinks(True, BATCH_BYTES).open_sink(ends.transactional_id)
    dead.open()
    write_all(dead, all_read(ends))
    servers, topic = clusters.target_servers, ends.target_topic
    assert end_offsets(servers, topic, "read_committed") == {0: 0}
    _claim(ends)
    assert end_offsets(servers, topic, "read_committed") == end_offsets(servers, topic) == {0: 6}
    dead.close()
