"""Writes overrides, as an instance of a new generation that claims the partitions like any other.

1. Look at both clusters, decide, and refuse requests that are not possible or not permitted. Nothing is changed so far.
2. Refuse while an instance copies one of the partitions, unless `--force` is given.
3. Announce a new generation and claim; fence the owners of other claims, which then can commit nothing more.
4. Look again, read the commit log to its end, and decide again: nobody copies any more.
5. Write commit and mapping records in one transaction.
6. Release.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from k2k_assets.control.assignment_records import Claim
from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.assignment_writing import new_instance
from k2k_assets.control.commit_log import CommitLog, now_ms, read_commit_log
from k2k_assets.control.control_topics import ensure_control_topics
from k2k_assets.control.copy_settings import all_marked
from k2k_assets.control.partitions import commit_partition, mapping_partition
from k2k_assets.control.stop_notes import note_key
from k2k_assets.control.traces import ensure_new_group, mapped_so_far
from k2k_assets.coordination import fencing_rules
from k2k_assets.coordination.announce import announce
from k2k_assets.coordination.claims import ClaimWriter
from k2k_assets.coordination.fencing_rules import transactional_id
from k2k_assets.core.errors import K2KError, Refused, Superseded
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.overrides.decide import Override, PartitionFacts, decide_override
from k2k_assets.overrides.holders import live_holders
from k2k_assets.overrides.lost_copies import with_lost_copies
from k2k_assets.overrides.offset_snapshot import OffsetSnapshot, take_snapshot
from k2k_assets.overrides.records import commit_record, mapping_record
from k2k_assets.overrides.request import Request, Where
from k2k_assets.permissions.missing import refuse
from k2k_assets.permissions.topic_check import TopicCheck
from k2k_assets.pipeline import Pipeline
from k2k_assets.topics.target_topics import ensure_target_topics
from k2k_assets.translation.log_ends import NOT_KNOWN
from k2k_assets.translation.source_logs import SourceLogs
from k2k_assets.transport.errors import Fenced, Restart
from k2k_assets.transport.factory import records_transport_of
from k2k_assets.transport.interface import ControlWriter

ClaimedAs = Mapping[tuple[str, int], TopicPartition]
"""Partitions by topic id and number, as claims name them."""


def rehearse(pipeline: Pipeline, source: Cluster, target: Cluster, request: Request) -> list[Override]:
    """Decides what an override would change; changes nothing.

    Args:
        pipeline: The pipeline.
        source: The source cluster.
        target: The target cluster.
        request: The requested positions.

    Raises:
        Refused: The request is not possible.
        ClusterUnreachable: A cluster does not answer.
    """
    snapshot = take_snapshot(pipeline, source, target, request.topics)
    return _decide(
        pipeline, target, snapshot, _read_log(pipeline, snapshot, target), request, SourceLogs(pipeline, source)
    )


def override(
    pipeline: Pipeline, source: Cluster, target: Cluster, request: Request, *, force: bool = False
) -> list[Override]:
    """Sets positions by hand.

    Args:
        pipeline: The pipeline.
        source: The source cluster.
        target: The target cluster.
        request: The requested positions.
        force: Whether to take the partitions from an instance that has claimed them.

    Returns:
        The changes.

    Raises:
        Refused: The request is not possible, or an instance copies the partitions; nothing was changed.
        Superseded: Another instance started meanwhile; nothing was changed.
        ClusterUnreachable: A cluster does not answer.
    """
    before = take_snapshot(pipeline, source, target, request.topics)
    counts = {topic.name: topic.partitions for topic in before.topics.values()}
    routed = map(pipeline.routing.target_topic, counts)
    permissions = TopicCheck(pipeline, source, target, "replication", counts, routed)
    refuse(permissions.before_creation())
    log = _read_log(pipeline, before, target)
    logs = SourceLogs(pipeline, source)
    _decide(pipeline, target, before, log, request, logs)
    ensure_control_topics(pipeline, target)
    claimed_as = _claimed_as(before, log, request)
    if not force:
        _ensure_free(pipeline, target, claimed_as)
    ensure_target_topics(pipeline, source, target, counts)
    refuse(permissions.after_creation())
    commit = target.describe([pipeline.coordination.commit.topic])[pipeline.coordination.commit.topic]
    owner = transactional_id(pipeline.name, pipeline.group, 0)
    sink = records_transport_of(pipeline).open_control_writer(owner)
    with AssignmentTail(pipeline, target) as tail:
        generation = announce(pipeline, tail, new_instance(pipeline, 1, commit.topic_id))
        again = partial(take_snapshot, pipeline, source, target, request.topics)
        writer = _Writer(pipeline, target, before, again, claimed_as, generation, owner, sink, tail, logs)
        try:
            sink.open()
            return writer.write(request)
        except Fenced:
            raise Superseded("another instance of the group started meanwhile; nothing was changed") from None
        except Restart as error:
            raise K2KError(
                f"the target did not take it: {error}. Whether the positions were changed tells k2k-tool describe "
                "-f FILE"
            ) from None
        finally:
            sink.close()


class _Writer:
    """Does steps 4 to 6, through a sink whose transactional id is initialised."""

    def __init__(
        self,
        pipeline: Pipeline,
        target: Cluster,
        snapshot: OffsetSnapshot,
        refresh: Callable[[], OffsetSnapshot],
        claimed_as: ClaimedAs,
        generation: int,
        owner: str,
        sink: ControlWriter,
        tail: AssignmentTail,
        logs: SourceLogs,
    ) -> None:
        self._pipeline = pipeline
        self._logs = logs
        self._target = target
        self._snapshot = snapshot
        self._refresh = refresh
        self._claimed_as = claimed_as
        self._generation = generation
        self._sink = sink
        self._tail = tail
        self._claims = ClaimWriter(pipeline, tail, sink, owner, (generation, 0))

    def write(self, request: Request) -> list[Override]:
        asked = sorted(set(self._claimed_as.values()))
        own = self._claims.claim(self._claims.new({tp: self._snapshot.topics[tp.topic].topic_id for tp in asked}))
        release = self._claims.release_all(own.values())
        try:
            self._fence_others(own)
            self._snapshot = self._seen_now()
            decided = self._decided(request, own)
        except K2KError:
            with suppress(Restart, Fenced):
                self._claims.write(release)
            raise
        self._sink.begin()
        self._write(decided, request)
        self._sink.commit()
        with suppress(Restart):  # the override is committed; claims that stay are fenced by the next instance
            self._claims.write(release)
        return decided

    def _seen_now(self) -> OffsetSnapshot:
        """Looks again: a fenced slot may have copied on since the first look, beyond the ends that were seen then.

        Raises:
            Refused: A topic was created anew since, so that the claims are for the former one.
        """
        now = self._refresh()
        for name, topic in self._snapshot.topics.items():
            if now.topics.get(name) != topic:
                raise Refused(f"the source topic {name} has changed meanwhile; nothing was changed. Start again")
        return now

    def _decided(self, request: Request, asked: Collection[TopicPartition]) -> list[Override]:
        mapped = mapped_so_far(self._pipeline, self._target)
        log = _read_log(self._pipeline, self._snapshot, self._target)
        newest = max((log.positions[tp].generation for tp in log.positions if tp in asked), default=-1)
        if newest > self._generation:
            raise Superseded(f"{self._tail.state.describe(newest)} has copied meanwhile; nothing was changed")
        if not (log.positions or log.passed_over):
            ensure_new_group(self._pipeline, self._target, mapped)
        return _decide(self._pipeline, self._target, self._snapshot, log, request, self._logs)

    def _fence_others(self, own: Mapping[TopicPartition, Claim]) -> None:
        """Fences the owners of other claims at once, without waiting: step 2 has made sure that this is wanted.

        Raises:
            Superseded: Another instance has a higher claim.
        """
        drawn = {claim.claim for claim in own.values()}
        higher: list[Claim] = []
        lower: list[Claim] = []
        for claim in self._tail.state.claims.values():
            mine = own.get(self._claimed_as[claim.what]) if claim.what in self._claimed_as else None
            if mine is not None and claim.claim not in drawn:
                (higher if fencing_rules.is_higher(claim, mine) else lower).append(claim)
        if higher:
            who = self._tail.state.describe(higher[0].generation)
            raise Superseded(f"{who} started meanwhile; nothing was changed")
        if lower:
            self._claims.fence(lower)

    def _write(self, decided: Sequence[Override], request: Request) -> None:
        pipeline, cluster, time = self._pipeline, self._snapshot.cluster_id, now_ms()
        commits, mappings = pipeline.coordination.commit.topic, pipeline.offset_mapping.topic
        # Mappings may be switched off only for now: those from before are cancelled too. Who never had any may not be
        # permitted to see their topic.
        found = self._target.describe_async([commits, mappings], partly=not pipeline.features.offset_mapping)()
        counts = {name: topic.partitions for name, topic in found.items()}
        marked_always = all_marked(self._tail.state.settings.values(), pipeline.marker)
        for one in decided:
            record = commit_record(one, pipeline, cluster, request, self._generation, time, marked_always)
            key = record.key_bytes()
            partition = commit_partition(pipeline, key, counts[commits])
            self._sink.write_control(commits, partition, key, record.value_bytes())
            if one.facts.noted is not None:
                self._sink.write_control(commits, partition, note_key(pipeline.group, cluster, record.source), None)
            mapping = mapping_record(one, pipeline, cluster, request, self._generation, time)
            if mapping is not None and mappings in counts:
                key = mapping.key_bytes()
                partition = mapping_partition(key, counts[mappings])
                self._sink.write_control(mappings, partition, key, mapping.value_bytes())


def _decide(
    pipeline: Pipeline,
    target: Cluster,
    snapshot: OffsetSnapshot,
    log: CommitLog,
    request: Request,
    logs: SourceLogs,
) -> list[Override]:
    asked = _asked(snapshot, log, request)
    stated = (snapshot.facts(pipeline, tp, log) for tp in asked)
    facts = {each.source: each for each in with_lost_copies(pipeline, target, snapshot.cluster_id, stated)}
    # What was copied of a former topic of the same name says nothing of the log of this one.
    copied = {tp: each.record for tp, each in facts.items() if each.record and not each.new_source}
    ends = logs.ends(copied, copied).offsets
    facts |= {tp: _with_log(facts[tp], ends.get(tp, NOT_KNOWN), record.position) for tp, record in copied.items()}
    return [decide_override(facts[tp], asked[tp], request) for tp in asked]


def _asked(snapshot: OffsetSnapshot, log: CommitLog, request: Request) -> dict[TopicPartition, Where]:
    """The requested position of each partition.

    A topic that was created anew may have fewer partitions than were copied. Accepted as a whole, it is accepted for
    the others too: nothing else would end their stop. Should they come back, they are copied from their beginning.
    """
    asked = request.by_partition(snapshot.partitions)
    if request.new_topic:
        whole = {one.topic for one in request.wanted if one.partition is None}
        ids = {tp: record.source_topic_id for tp, record in log.positions.items()}
        for tp in sorted({*log.noted, *ids}):
            if tp.topic in whole and tp not in asked and ids.get(tp) != snapshot.topics[tp.topic].topic_id:
                asked[tp] = "earliest"
    return asked


def _with_log(facts: PartitionFacts, end: int, position: int) -> PartitionFacts:
    """Adds up to where the log of the source is the one that was copied up to a position (`SourceLogs.ends`)."""
    if end == NOT_KNOWN:
        return replace(facts, is_log_unknown=True)
    return replace(facts, cut_off=end) if end < position else facts


def _read_log(pipeline: Pipeline, snapshot: OffsetSnapshot, target: Cluster) -> CommitLog:
    return read_commit_log(pipeline, snapshot.cluster_id, target)


def _claimed_as(snapshot: OffsetSnapshot, log: CommitLog, request: Request) -> ClaimedAs:
    """The topic ids under which the partitions may be claimed: today's, and that of a former topic of the same name."""
    found: dict[tuple[str, int], TopicPartition] = {}
    for tp in _asked(snapshot, log, request):
        record = log.positions.get(tp)
        former = (record.source_topic_id,) if record else ()
        found |= {(topic_id, tp.partition): tp for topic_id in (*former, snapshot.topics[tp.topic].topic_id)}
    return found


def _ensure_free(pipeline: Pipeline, target: Cluster, wanted: ClaimedAs) -> None:
    """Refuses if a living instance has claimed one of the partitions. A courtesy: fencing keeps the override safe."""
    for words, partitions in live_holders(pipeline, target, wanted).items():
        names = ", ".join(map(str, partitions))
        raise Refused(
            f"{words} has not released {names}. Stop it first; if it is dead, or is to be taken over from, add --force "
            "(on the page: take the partitions): it is fenced, and goes on from what was set if it runs"
        )
