"""Requests that the network delays until the next transaction is open."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.chunk import Chunk, Sent
from k2k_assets.transport.errors import Restart
from k2k_assets.transport.interface import Sink
from k2k_assets.transport.librdkafka import control_writer
from k2k_assets.transport.librdkafka.at_least_once_sink import AtLeastOnceSink
from k2k_assets_tests.support.brokers.kafka import SECONDS, read_all, unique
from k2k_assets_tests.support.brokers.kafka_frames import Api, end_txn_error
from k2k_assets_tests.support.brokers.proxy import Fault, Proxy, Trouble
from k2k_assets_tests.support.copies.copying import (
    assert_exact_mappings,
    assert_same_content,
    copy,
    flush_transaction,
)
from k2k_assets_tests.support.copies.steps import WrappedSink, sinks_wrapped
from k2k_assets_tests.support.copies.troubled_copy import (
    EXACTLY_ONCE,
    Written,
    assert_at_least_once,
    pipeline_of,
    write_with_gaps,
)
from k2k_assets_tests.support.suite.storms import in_storms

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def written(clusters: KafkaSandbox) -> Written:
    return write_with_gaps(clusters.source_servers, batches=4, size=60)


class Straying:
    """Lets a lost request through when records of a later transaction are on the target, and their position is not.

    The client has sent the request again long before, and got its answer.

    Args:
        proxy: Before the target.
        api: What is lost, once the first record is written (or once the sink opens, for the request that opens it).
        fails: Whether the engine then meets an error, as it may at any time, and starts again.
        carrying: What the lost request holds.
    """

    def __init__(self, proxy: Proxy, api: Api, fails: bool, carrying: bytes = b"") -> None:
        self.proxy, self.fails = proxy, fails
        self.fault = Fault(api, Trouble.LOST, carrying=carrying)
        self.armed = self.ended = False
        self.records: list[int] = []
        self.answer: bytes | None = None

    def wrap(self, sink: Sink) -> Sink:
        return _StraySink(sink, self)

    def arm(self) -> None:
        if not self.armed:
            self.armed = True
            self.proxy.arm(self.fault)

    def written(self, sink: Sink, offsets: Iterable[int] = ()) -> None:
        """Records have been handed to the sink whose transaction is open: copied ones, or the first control one."""
        if not self.ended or self.answer is not None:
            return
        flush_transaction(sink, SECONDS)
        self.records = list(offsets)
        self.answer = self.proxy.let_through(self.fault)
        if self.fails:
            raise Restart("an error right after a stray request")


class _StraySink(WrappedSink):
    def __init__(self, sink: Sink, straying: Straying) -> None:
        super().__init__(sink)
        self._straying = straying

    def open(self) -> None:
        if self._straying.fault.api == Api.INIT_PRODUCER_ID:
            self._straying.arm()
        super().open()

    def write(self, chunk: Chunk) -> Sent:
        sent = super().write(chunk)
        self._straying.arm()
        if not isinstance(self._sink, AtLeastOnceSink):
            self._straying.written(self._sink, chunk.records.offsets())
        return sent

    def write_control(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        super().write_control(topic, partition, key, value)
        if isinstance(self._sink, AtLeastOnceSink):  # its transactions contain nothing else
            self._straying.written(self._sink)

    def commit(self) -> None:
        try:
            super().commit()
        finally:
            self._straying.ended = self._straying.fault.request is not None


def copy_with_stray(clusters: KafkaSandbox, pipeline: Pipeline, proxy: Proxy, api: Api, fails: bool) -> Straying:
    # At-least-once also has a producer without a transactional id.
    carrying = f"k2k.{pipeline.name}".encode() if api == Api.INIT_PRODUCER_ID else b""
    straying = Straying(proxy, api, fails, carrying)
    with sinks_wrapped(pipeline, straying.wrap):
        copy(pipeline, cores=1)
    assert straying.answer is not None
    return straying


def behind(proxy: Proxy, directory: Path, source: str, written: Written, mode: str, **rest: Any) -> Pipeline:
    """A pipeline that reaches its target through the proxy."""
    features = {**EXACTLY_ONCE, "exactlyOnce": mode}
    return pipeline_of(directory, source, proxy.servers, written.topic, features=features, **rest)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "mode"),
    [
        pytest.param("without the rule", "enabled", marks=pytest.mark.librdkafka),
        ("with the rule", "enabled"),
        *in_storms(("with the rule", "disabled")),
    ],
)
def test_a_stray_commit_tears_no_transaction(
    clusters: KafkaSandbox,
    tmp_path: Path,
    written: Written,
    monkeypatch: pytest.MonkeyPatch,
    rule: str,
    mode: str,
) -> None:
    """A commit that was sent twice: its first copy comes when the next transaction's records are half written.

    Without the rule that nothing is begun after a slow commit, the broker commits these records without their
    position: they are copied once more. That run is here to show that this broker and this client do so. At least once
    the transaction is that of position and mapping, which come together or not at all.
    """
    source, target, prefix = clusters.source_servers, clusters.target_servers, f"{unique('stray')}."
    if rule == "without the rule":
        monkeypatch.setattr(control_writer, "ensure_unambiguous", lambda seconds: None)
    with Proxy(target) as proxy:
        # Else the torn transaction would count as foreign, which stops the topic.
        handling = {"onForeignWriter": "ignore"}
        pipeline = behind(proxy, tmp_path, source, written, mode, sink={"prefix": prefix}, errorHandling=handling)
        straying = copy_with_stray(clusters, pipeline, proxy, Api.END_TXN, fails=True)
        lost = straying.fault.request
        assert lost is not None
        again = next(r for r in proxy.seen(Api.END_TXN) if r.at > lost.at)
    if pipeline.transport.form == "records":  # its transactions have an epoch each, and it asks again at once
        # The rule needs this: the client never repeats a commit earlier.
        assert again.at - lost.at >= control_writer.AMBIGUOUS_AFTER_SECONDS
    assert straying.answer is not None
    error = end_txn_error(straying.answer, lost.version)
    if rule == "with the rule":
        assert error in (KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
        assert_copied(pipeline, written, source, target)
    else:
        assert error == KafkaError.NO_ERROR
        offsets = {record.value: record.offset for record in read_all(source, written.topic)}
        copied = [offsets[record.value] for record in read_all(target, prefix + written.topic)]
        assert sorted(copied) == sorted([*written.offsets, *straying.records])


OTHERS = (Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.PRODUCE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("api", "mode"),
    [*((api, "enabled") for api in OTHERS), *in_storms(*((api, "disabled") for api in OTHERS))],
)
def test_other_stray_requests(clusters: KafkaSandbox, tmp_path: Path, written: Written, api: Api, mode: str) -> None:
    """Late requests other than the end of a transaction do no harm, and end no session."""
    source, target, prefix = clusters.source_servers, clusters.target_servers, f"{unique('stray')}."
    with Proxy(target) as proxy:
        pipeline = behind(proxy, tmp_path, source, written, mode, sink={"prefix": prefix})
        copy_with_stray(clusters, pipeline, proxy, api, fails=False)
    assert_copied(pipeline, written, source, target)


def assert_copied(pipeline: Pipeline, written: Written, source: str, target: str) -> None:
    """As the pipeline's mode promises it; each record is mapped once in both, to one that is equal."""
    if pipeline.features.exactly_once:
        assert_same_content(source, written.topic, target, pipeline.routing.target_topic(written.topic))
    else:
        assert_at_least_once(pipeline, written, source, target)
    assert_exact_mappings(pipeline, source, target, written.topic)
