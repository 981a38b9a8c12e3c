"""A whole copy with one network fault on the way to a cluster, and what must be true afterwards."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from k2k_assets.coordination.fencing_rules import transactional_id
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import ClusterUnreachable
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.outcome import Outcome
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.transport.errors import Restart
from k2k_assets_tests.support.brokers.kafka import create_topic, end_offsets, produce, read_all, unique
from k2k_assets_tests.support.brokers.kafka_frames import Api, Request, ends_in_commit
from k2k_assets_tests.support.brokers.proxy import Fault, Proxy, Trouble
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, assert_same_content, commit_records, copy
from k2k_assets_tests.support.copies.killed_instance import run_and_kill
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.copies.steps import Steps, sinks_wrapped
from k2k_assets_tests.support.copies.takeovers import assignments

EXACTLY_ONCE = {"exactlyOnce": "enabled", "offsetMapping": "enabled", "headerReplication": "enabled"}
BATCH = 100
# Long enough for what a loaded machine answers in time, short enough that a lost answer is missed soon.
_SOCKET = {"socket.timeout.ms": 1500}
_READER = {**_SOCKET, "fetch.wait.max.ms": 100}
# One batch of records at a time, and the next one when none is left: so there are requests at each step. And what a
# client asks in the background is asked all the time.
_IN_SMALL_PIECES = {
    "max.partition.fetch.bytes": 1,
    "queued.min.messages": 2,
    "topic.metadata.refresh.interval.ms": 50,
}
# Deadline for requests that a client sends only now and then.
_SOON = 60.0
# A client that is closed meanwhile does not wait for these answers.
_IN_THE_BACKGROUND = (Api.FETCH, Api.METADATA)
# Copies that run at once; they wait most of the time.
_AT_ONCE = 4


class Carrying(Enum):
    """What a request has to hold."""

    ANY = "whatever it is"
    DATA = "the name of the copied topic"
    CONTROL = "the name of the commit topic"
    MAPPING = "the name of the mapping topic"
    ID = "the transactional id of the slot"
    DEAD = "the transactional id of the slot before it, which was killed"
    READER = "the client id of who reads the source's records"
    ASKER = "the client id of who asks for the source's metadata"


class Follows(Enum):
    """Whom a copy follows, who was killed within a transaction."""

    NOBODY = "nobody"
    ITSELF = "an instance of the same pipeline"
    ANOTHER = "an instance of another pipeline of the same group, which has transactional ids of its own"


@dataclass(frozen=True)
class Case:
    """One trouble.

    Attributes:
        side: Of the cluster that the proxy stands before.
        api: Which request is hit.
        trouble: What happens to it.
        step: From when on it is looked for: a step of `Steps`, `begin` for the very beginning, or `again` for the
            beginning of another copy after one without trouble.
        carrying: What it has to hold.
        occurrence: The how many-th of those.
        exactly_once: In which mode the copy runs.
        waits: Whether the step waits for such a request, because clients send it now and then, and not for the step.
        follows: Whom it follows.
        aborts: Whether the session fails at the step, so that the request is of the transaction's end in an abort.
    """

    side: Literal["source", "target"]
    api: Api
    trouble: Trouble
    step: str
    carrying: Carrying = Carrying.ANY
    occurrence: int = 1
    exactly_once: bool = True
    waits: bool = False
    follows: Follows = Follows.NOBODY
    aborts: bool = False

    @property
    def by_the_driver(self) -> bool:
        """Whether it is the driver's request: it fences, so that it can read the commit topic."""
        return self.follows is not Follows.NOBODY and self.step == "begin"

    def __str__(self) -> str:
        mode = "exactly once" if self.exactly_once else "at least once"
        which = f"{self.side} {self.api.name} {self.carrying.name} {self.occurrence}"
        end = ", in an abort" if self.aborts else ""
        return f"{which} from {self.step}{end}, after {self.follows.name}, {self.trouble.name}, {mode}"


@dataclass(frozen=True)
class Written:
    """A source topic with one partition, and the offsets of its committed records."""

    topic: str
    offsets: tuple[int, ...]


def write_with_gaps(servers: str, batches: int, size: int) -> Written:
    """Committed and aborted transactions and plain records in turn: offsets with all kinds of gaps."""
    topic = create_topic(servers, unique("ambiguous"))
    for batch in range(batches):
        produce(servers, topic, [(b"k%d" % i, b"%d-%d" % (batch, i)) for i in range(size)], 0, unique("tx"))
        produce(servers, topic, [b"aborted"] * 7, 0, abort=True)
        produce(servers, topic, [b"plain-%d-%d" % (batch, i) for i in range(5)], 0)
    return Written(topic, tuple(record.offset for record in read_all(servers, topic)))


class TroubledCopy:
    """Copies a topic while one case of trouble happens.

    Args:
        clusters: Both.
        directory: For the pipeline file.
        written: The source topic.
        case: The trouble.
    """

    def __init__(self, clusters: KafkaSandbox, directory: Path, written: Written, case: Case) -> None:
        self.case = case
        self._clusters = clusters
        self._source, self._target = clusters.source_servers, clusters.target_servers
        self._directory = directory
        self._written = written
        self._prefix = f"{unique('copy')}."
        self._target_topic = self._prefix + written.topic

    def run(self) -> None:
        """Copies and compares both clusters; the trouble must have happened."""
        with Proxy(self._source if self.case.side == "source" else self._target) as proxy:
            pipeline = self._pipeline(proxy)
            fault = self._fault(pipeline)

            hit_by: dict[str, bool] = {}

            def come_to(step: str) -> None:
                hit_by[step] = fault.chosen.is_set()
                if step == self.case.step:
                    fault.or_carrying = self._topic_id(pipeline)
                    proxy.arm(fault)
                    if self.case.waits:
                        fault.chosen.wait(_SOON)
                    if self.case.aborts:
                        wait_until(
                            lambda: self._is_begun(proxy, pipeline), _SOON, "the target to know of the transaction"
                        )
                        raise Restart("a session that fails before its commit")

            if self.case.step == "again":
                copy(pipeline, cores=1)
            if self.case.follows is not Follows.NOBODY:
                self._leave_a_dead_one(pipeline)
            come_to("begin")
            come_to("again")
            with sinks_wrapped(pipeline, Steps(pipeline, self._written.offsets, come_to).wrap):
                outcome = _copy_to_the_end(pipeline)
        assert fault.request is not None, "no request was hit"
        assert hit_by["open"] or not self.case.by_the_driver, "it was not the driver's request"
        assert fault.happened.is_set() or self.case.api in _IN_THE_BACKGROUND, "its client did not wait for an answer"
        if self.case.api == Api.END_TXN:
            assert ends_in_commit(fault.request) is not self.case.aborts
            self._assert_outcome_known(proxy, pipeline, fault.request)
        assert not assignments(self._clusters, pipeline).claims
        assert outcome.topics[self._written.topic].lag == 0
        if self.case.exactly_once:
            assert_same_content(self._source, self._written.topic, self._target, self._target_topic)
        else:
            assert_at_least_once(pipeline, self._written, self._source, self._target)
        assert_exact_mappings(pipeline, self._source, self._target, self._written.topic)

    def _assert_outcome_known(self, proxy: Proxy, pipeline: Pipeline, ended: Request) -> None:
        """By batches the same is asked again, because each transaction has its epoch; else another producer begins."""
        by_batches = pipeline.transport.form != "records" and not self.case.aborts
        if by_batches and self.case.trouble is Trouble.DELAYED:
            return  # it comes in time
        api = Api.END_TXN if by_batches else Api.INIT_PRODUCER_ID
        later = [request for request in proxy.seen(api, _ids(pipeline)[Carrying.ID]) if request.at > ended.at]
        if by_batches:
            later = [request for request in later if request.content == ended.content]
        assert later, "a commit that nobody knows about was built upon"

    def _is_begun(self, proxy: Proxy, pipeline: Pipeline) -> bool:
        """Whether the target knows of a partition in the open transaction: the client ends no other."""
        of_slot = _ids(pipeline)[Carrying.ID]
        ended = proxy.seen(Api.END_TXN, of_slot)
        begun = [*proxy.seen(Api.ADD_PARTITIONS_TO_TXN, of_slot), *proxy.seen(Api.PRODUCE, of_slot)]
        return max(r.at for r in begun) > max(r.at for r in ended)

    def _leave_a_dead_one(self, pipeline: Pipeline) -> None:
        run_and_kill(pipeline if self.case.follows is Follows.ITSELF else _other(pipeline))
        assert assignments(self._clusters, pipeline).claims
        topic = pipeline.coordination.commit.topic
        stable = end_offsets(self._target, topic, "read_committed")
        assert stable != end_offsets(self._target, topic), "no transaction was left open"

    def _fault(self, pipeline: Pipeline) -> Fault:
        names = {
            Carrying.ANY: b"",
            Carrying.DATA: self._target_topic.encode(),
            Carrying.CONTROL: pipeline.coordination.commit.topic.encode(),
            Carrying.MAPPING: pipeline.offset_mapping.topic.encode(),
            **_ids(pipeline),
        }
        return Fault(self.case.api, self.case.trouble, self.case.occurrence, names[self.case.carrying])

    def _topic_id(self, pipeline: Pipeline) -> bytes:
        """The id of the topic that the request has to hold, as those with whole batches do; empty if there is none."""
        topics = {
            Carrying.DATA: self._target_topic,
            Carrying.CONTROL: pipeline.coordination.commit.topic,
            Carrying.MAPPING: pipeline.offset_mapping.topic,
        }
        name = topics.get(self.case.carrying)
        if name is None:
            return b""
        with Cluster("target", {"bootstrap.servers": self._target}) as target:
            found = target.describe([name]).get(name)
        return base64.urlsafe_b64decode(f"{found.topic_id}==") if found else b""

    def _pipeline(self, proxy: Proxy) -> Pipeline:
        of_source = self.case.side == "source"
        return pipeline_of(
            self._directory,
            proxy.servers if of_source else self._source,
            self._target if of_source else proxy.servers,
            self._written.topic,
            sink={"prefix": self._prefix},
            features=EXACTLY_ONCE if self.case.exactly_once else {"offsetMapping": "enabled"},
            reader=_IN_SMALL_PIECES,
            grace="15 seconds" if self.case.follows is Follows.NOBODY else "1 second",
        )


def pipeline_of(
    directory: Path,
    source: str,
    target: str,
    topic: str,
    reader: Mapping[str, Any] | None = None,
    grace: str = "15 seconds",
    **rest: Any,
) -> Pipeline:
    """A pipeline in small transactions whose clients do not wait long for an answer.

    Args:
        directory: For its file.
        source: Bootstrap address.
        target: Bootstrap address.
        topic: On the source.
        reader: More settings of the consumer that reads the source.
        grace: The grace window.
        rest: More of the file.
    """
    name = unique("ambiguous")
    group = f"k2k.{name}"
    common = {"bootstrap.servers": source, "client.id": _client_id(group, Carrying.ASKER)}
    consumer = {"group.id": group, "client.id": _client_id(group, Carrying.READER), **_READER, **(reader or {})}
    return make_pipeline(
        directory,
        source,
        target,
        [topic],
        source={"kafka": {"common": common, "consumer": consumer}},
        target={"kafka": {"common": {"bootstrap.servers": target}, "producer": _SOCKET, "consumer": _READER}},
        coordination={
            "commit": {"topic": f"{name}-commits", "batchSize": BATCH},
            "assignment": {"topic": f"{name}-claims", "graceWindow": grace},
        },
        **rest,
    )


def _client_id(group: str, who: Carrying) -> str:
    return f"{who.name}-of-{group}"


def _ids(pipeline: Pipeline) -> dict[Carrying, bytes]:
    return {
        Carrying.ID: transactional_id(pipeline.name, pipeline.group, 0).encode(),
        Carrying.DEAD: transactional_id(_other(pipeline).name, pipeline.group, 0).encode(),
        **{who: _client_id(pipeline.group, who).encode() for who in (Carrying.READER, Carrying.ASKER)},
    }


def _other(pipeline: Pipeline) -> Pipeline:
    """Another pipeline of the same group: it copies the same, under other transactional ids."""
    return pipeline.model_copy(update={"name": f"dead-{pipeline.name}"})


def _copy_to_the_end(pipeline: Pipeline) -> Outcome:
    """A bounded run whose driver meets the trouble may say so and end: then the next one has to do it."""
    try:
        return copy(pipeline, cores=1)
    except ClusterUnreachable:
        return copy(pipeline, cores=1)


def assert_at_least_once(pipeline: Pipeline, written: Written, source: str, target: str) -> None:
    """Nothing is lost, order is kept; what comes again begins at the newest position that was committed by then."""
    values = {record.value: record.offset for record in read_all(source, written.topic)}
    copied = [values[record.value] for record in read_all(target, pipeline.routing.target_topic(written.topic))]
    commits = commit_records(pipeline, target)
    following = dict(pairwise(written.offsets))
    assert copied[0] == written.offsets[0]
    assert set(copied) == set(written.offsets)
    for target_offset, (before, after) in enumerate(pairwise(copied), 1):
        if after != following.get(before):
            position = [c.position for c in commits if (c.target_end or 0) <= target_offset][-1]
            assert after == next(offset for offset in written.offsets if offset >= position)


def all_of(copies: Iterable[TroubledCopy]) -> None:
    """Runs copies, several at once.

    Raises:
        ExceptionGroup: When all have ended: what went wrong, with a note of the case.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        runs = [(each.case, pool.submit(each.run)) for each in copies]
    failures: list[Exception] = []
    for case, run in runs:
        failure = run.exception()
        if isinstance(failure, Exception):
            failure.add_note(str(case))
            failures.append(failure)
    if failures:
        raise ExceptionGroup("troubled copies went wrong", failures)
