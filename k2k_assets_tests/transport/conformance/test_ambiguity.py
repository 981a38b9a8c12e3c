"""Commits with an unknown outcome: the sink reports it, and the next sink learns the outcome."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.factory import BATCHES, RECORDS
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.brokers.proxy import Fault, Proxy, Trouble
from k2k_assets_tests.support.suite.storms import in_storms
from k2k_assets_tests.transport.conformance.ends import BATCH_BYTES, RealEnds, all_read, write_all

# By batches, partitions join by their first records, unless another transaction has just been ended: for that there is
# `record_batch/test_cut_requests.py`. Their topics are named by ids.
LOST = [
    pytest.param(RECORDS, Api.ADD_PARTITIONS_TO_TXN, id="librdkafka-joining", marks=pytest.mark.integration),
    pytest.param(RECORDS, Api.PRODUCE, id="librdkafka-records", marks=pytest.mark.integration),
    pytest.param(BATCHES, Api.PRODUCE, id="record-batches-records", marks=pytest.mark.integration),
]
# A sink waits for a missing answer as long as any of its steps may take.
TROUBLES = [Trouble.DELAYED, Trouble.CUT, Trouble.LOST, *in_storms((Trouble.DROPPED,))]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_commit_that_returns_is_committed_and_the_next_sink_goes_on(
    clusters: KafkaSandbox, tmp_path: Path, real_transport: str, trouble: Trouble
) -> None:
    with Proxy(clusters.target_servers) as proxy:
        ends = RealEnds(real_transport, clusters, tmp_path, target=proxy.servers)
        ends.write(10)
        chunks = all_read(ends)
        sinks = ends.transport.open_sinks(True, BATCH_BYTES)
        sink = sinks.open_sink(ends.transactional_id)
        sink.open()
        write_all(sink, chunks)
        fault = proxy.arm(Fault(Api.END_TXN, trouble))
        returned = False
        with suppress(Restart):
            sink.commit()
            returned = True
        assert fault.chosen.is_set()
        sink.close()

        # The transport reports the outcomes that it can know, and no others.
        if ends.transport.capabilities.knows_commit_outcome:
            assert returned
        following = sinks.open_sink(ends.transactional_id)
        following.open()
        before = len(ends.copied())
        assert before == 10 if returned else before in (0, 10)
        write_all(following, chunks)
        following.commit()
        following.close()
    assert [record.value for record in ends.copied()][before:] == [record.value for record in ends.committed()]


@pytest.mark.parametrize("trouble", [Trouble.CUT, Trouble.LOST])
@pytest.mark.parametrize(("transport", "api"), LOST)
def test_a_request_that_is_lost_doubles_nothing(
    clusters: KafkaSandbox, tmp_path: Path, transport: str, api: Api, trouble: Trouble
) -> None:
    with Proxy(clusters.target_servers) as proxy:
        ends = RealEnds(transport, clusters, tmp_path, target=proxy.servers)
        ends.write(10)
        chunks = all_read(ends)
        sinks = ends.transport.open_sinks(True, BATCH_BYTES)
        fault = proxy.arm(Fault(api, trouble))
        for _ in range(6):  # as the loop does: what is not committed is written again
            sink = sinks.open_sink(ends.transactional_id)
            sink.open()
            # Only now nothing is open any more: a commit is answered before its records can be seen.
            if is_copied := bool(ends.copied()):
                sink.close()
                break
            with suppress(Restart):
                write_all(sink, chunks)
                sink.commit()
            sink.close()
        assert is_copied
        assert fault.chosen.is_set()
    assert [record.value for record in ends.copied()] == [record.value for record in ends.committed()]
