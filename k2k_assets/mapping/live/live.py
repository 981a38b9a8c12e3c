"""The present mappings, without Spark: the index, and the mapping topic followed from where the index ends.

All mappings can be looked up: those that are not in memory are read from the index. `catch_up` takes the cut at which
answers are right (`mapping/algebra/cut.py`), in this order:

1. L, the last stable offset of each target partition;
2. the high watermarks of the commit topic, and its records up to them: so all records below L are known as copied, even
   those of a source partition that was never seen before;
3. the high watermarks of the mapping topic, and its records up to them.

Mapping records that cannot be read any more (deleted by retention before they were read, or unreadable and ignored)
leave a gap in the coverage. So do records that are copied by the commit topic, and that no mapping record covers. Where
a commit record is of a newer generation than all mapping records that could be read, and of other copies, these may
cancel what the mapping records say: nothing of it is answered until a later mapping record is read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.mapping_records import BothWays
from k2k_assets.core.any_group import ANY_GROUP
from k2k_assets.core.errors import ClusterUnreachable, Hidden, Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural
from k2k_assets.kafka.cluster import Cluster, SeenTopics, TopicDescription
from k2k_assets.kafka.leaders import ranges_where_led
from k2k_assets.kafka.messages import Message
from k2k_assets.kafka.read_back import ends_of_committed
from k2k_assets.kafka.topic_follower import TopicFollower
from k2k_assets.mapping.algebra.fold import Covered, LateRecord, Target
from k2k_assets.mapping.algebra.in_memory_mapping import InMemoryMapping, NotInMemory, Tables
from k2k_assets.mapping.algebra.in_memory_mappings import InMemoryMappings
from k2k_assets.mapping.algebra.lost_copies import unless_copied_anew, without_lost, without_overlaid
from k2k_assets.mapping.algebra.partition_map import PartitionMap, SourcePartition
from k2k_assets.mapping.live.copied_positions import CopiedPositions
from k2k_assets.mapping.live.index_access import IndexAccess
from k2k_assets.mapping.live.mapping_messages import MappingMessages, UnreadableMapping
from k2k_assets.mapping.live.reading_anew import Owned, ReadingAnew, few_at_a_time
from k2k_assets.mapping.live.target_cuts import TargetCuts
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.mapping")


@dataclass(frozen=True, slots=True)
class Cut:
    """The state of the target before the mappings were read.

    Attributes:
        topic_ids: Ids of the target topics that exist.
        starts: Log start of each of their partitions.
        stable: Last stable offset of each of their partitions (L). Every record below it is mapped, if its mapping was
            written in its transaction.
        offline_partitions: Partitions without a leader, and those with copies in topics that may not be seen, with the
            reason; they are in neither `starts` nor `stable`.
    """

    topic_ids: Mapping[str, str]
    starts: Mapping[TopicPartition, int]
    stable: Mapping[TopicPartition, int]
    offline_partitions: Mapping[TopicPartition, str] = field(default_factory=dict)


class LiveMappings:
    """Follows the mappings of a pipeline. Only one thread at a time may use it.

    Args:
        pipeline: The pipeline.
        source_cluster: Id of the source cluster.
        target: The target cluster.
        others: Whether other pipelines' mappings of the same source partitions are followed too.
        with_dropped: Whether maps have the ranges that were left out on purpose (`PartitionMap.dropped`).

    Raises:
        Refused: The mapping topic does not exist, or is not the one that the index has read.
        ClusterUnreachable: The target does not answer.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        source_cluster: str,
        target: Cluster,
        others: bool = False,
        with_dropped: bool = False,
    ) -> None:
        self._with_dropped = with_dropped
        self._pipeline = pipeline
        self._cluster = source_cluster
        self._target = target
        self._topic = pipeline.offset_mapping.topic
        self._retention = pipeline.offset_mapping.retention
        self._messages = MappingMessages(pipeline, source_cluster, others)
        mark_every = int(self._retention.schedule.total_seconds() * 1000)
        self._held = InMemoryMappings(pipeline.group, mark_every, with_dropped)
        self._began: dict[SourcePartition, tuple[int | None, int | None, int | None]] = {}
        self._warned: set[SourcePartition] = set()
        reader = pipeline.client_properties("target", "consumer")
        self._target_cuts = TargetCuts(target, partial(ends_of_committed, target, reader))
        self._anew = False  # whether a reading from the start was begun and not finished
        self._out_of_order: set[Owned] = set()
        self._unreadable: UnreadableMapping | None = None
        self._next_drop = time.monotonic() + self._retention.schedule.total_seconds()
        found = self._seen().topics
        topic_id = found[self._topic].topic_id
        self._index = IndexAccess(pipeline, source_cluster, target.cluster_id(), topic_id, with_dropped)
        self._follower = self._begun_behind_index(found[self._topic])
        self._copied: CopiedPositions | None = None
        self._follow_commits(found)

    def catch_up(self, topics: Collection[str], patience: float = 30.0) -> Cut:
        """Takes a cut, and reads the mappings up to it.

        Args:
            topics: Target topics.
            patience: Give up after so many seconds without a record.

        Raises:
            ClusterUnreachable: The target does not answer, or a transaction hangs.
            Refused: A control topic was deleted or created anew, or holds a record that cannot be read.
        """
        described, hidden = self._seen(topics)
        if self._copied is None:
            self._follow_commits(described)
        names = [TopicPartition(t, p) for t in topics if t in described for p in range(described[t].partitions)]
        starts, stable, offline = ranges_where_led(self._target, names, "stable")
        identified = {Target(tp.topic, described[tp.topic].topic_id, tp.partition): end for tp, end in stable.items()}
        self._target_cuts.look(self._held.items(), identified)
        # Read before the mapping topic's ends are taken: so all known positions have mapping records below these ends.
        if self._copied:
            self._copied.read(patience)
        self._read(self._follower.ends(), patience)
        self._drop_if_due()
        again = self._target.seen_async(topics)()
        ids = {name: topic.topic_id for name, topic in again.topics.items()}
        if changed := [name for name in ids if name not in described or described[name].topic_id != ids[name]]:
            raise ClusterUnreachable(f"target topics were created anew while they were looked at: {', '.join(changed)}")
        return Cut(ids, starts, stable, offline | self._with_copies_in(hidden | again.hidden))

    def _with_copies_in(self, hidden: Mapping[str, Hidden]) -> dict[TopicPartition, str]:
        """The target partitions with copies in topics that may not be seen, with the reason."""
        went = (
            {to for _, held in self._held.items() for to in held.target_ends() if to.topic in hidden} if hidden else ()
        )
        return {TopicPartition(to.topic, to.partition): str(hidden[to.topic]) for to in went}

    def sources(self) -> list[SourcePartition]:
        """The source partitions that are mapped or copied, including those of topics that were created anew since."""
        return sorted({*self._held.sources(), *self.copied()})

    def copied(self) -> Mapping[SourcePartition, CommitRecord]:
        """The newest commit record of each source partition, by the pipeline whose mappings count."""
        if self._copied is None:
            return {}
        newest = self._copied.newest()
        if self._pipeline.group != ANY_GROUP:
            return newest
        return {source: self._commit_of(source) or record for source, record in newest.items()}

    def _commit_of(self, source: SourcePartition) -> CommitRecord | None:
        if self._copied is None:
            return None
        return self._copied.of_group(source, self._held.group_of(source)) or self._copied.newest().get(source)

    @property
    def records_read(self) -> int:
        """Number of mapping records read so far; those that were read twice count twice."""
        return self._messages.records_read

    def mapped_ends(self) -> dict[SourcePartition, int]:
        """The source offset up to which the mappings of each source partition are known; gaps do not count."""
        return {source: self._held.held(source).covered_end for source in self._held.sources()}

    def map_of(self, source: SourcePartition, lowest: int | None = None, with_lost: bool = False) -> PartitionMap:
        """The map of a source partition, up to the first record whose copy the target has lost.

        Args:
            source: The source partition.
            lowest: Lowest source position that will be looked up; None: positions in memory only.
            with_lost: Whether lost copies are in it, too.
        """
        found = self._whole_map_of(source, lowest)
        return found if with_lost else without_lost(found, self.cuts_of(source).get)

    def cuts_of(self, source: SourcePartition) -> Mapping[Target, int]:
        """As `TargetCuts.of`."""
        return self._target_cuts.of(source, self._commit_of(source))

    def _whole_map_of(self, source: SourcePartition, lowest: int | None) -> PartitionMap:
        held = self._held.held(source)
        if lowest is None or lowest >= held.since:
            return self._map(source, *self._held.alone(source), held.skipped)
        below = self._index.below(source, lowest, held.since, self._held.read_to(source))
        if below is None or not below.answers_all(lowest, held.since):
            self._warn_of_lookup(source, lowest, held.since)
        known = without_overlaid(*(held.with_index(below) if below else held.alone()))
        return self._map(source, *known, held.skipped_with(below) if below else held.skipped)

    def other_cluster_into(self, topic: str) -> str | None:
        """Id of another source cluster that is copied to a target topic too, as far as the commit topic tells."""
        return self._copied.others.cluster_into(topic) if self._copied else None

    def others_into(self, topic: str) -> Mapping[str, Mapping[str, CommitRecord]]:
        """As `CommitsOfOthers.into`, as far as the commit topic tells."""
        return self._copied.others.into(topic) if self._copied else {}

    def ways_of(self, source: SourcePartition) -> frozenset[BothWays | None]:
        """How a source partition was copied, as far as the mapping records say that were read here (`NotedWays.of`).

        Records that are read from the index are not among them.
        """
        return self._messages.ways.of(self._held.group_of(source), source)

    def others_of(self, source: SourcePartition) -> dict[str, PartitionMap]:
        """The maps of a source partition by other pipelines' mappings, by their `group.id`."""
        return self._held.others_of(source)

    def close(self) -> None:
        """Closes the clients."""
        self._follower.close()
        if self._copied:
            self._copied.close()

    def __enter__(self) -> LiveMappings:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _map(
        self, source: SourcePartition, covered: tuple[Covered, ...], tables: Tables, skipped: Iterable[Covered]
    ) -> PartitionMap:
        newest = self._commit_of(source)
        began, *starts = self._began.get(source, (None, None, None))
        if newest and newest.began is not None:
            began, *starts = newest.began, newest.log_start, newest.target_began
        known = replace(PartitionMap.with_dropped(source, began, covered, tables, *starts), skipped=tuple(skipped))
        if newest is None:
            return known
        held = self._held.held(source)
        if held.is_doubtful:
            known = unless_copied_anew(known, held.newest, newest)
        # Records up to there are copied without mapping records: positions in them are unknown, not ahead.
        return known.reaching(newest.position)

    def _warn_of_lookup(self, source: SourcePartition, lowest: int, since: int) -> None:
        if source not in self._warned:
            self._warned.add(source)
            # An index holds the mappings of one pipeline's group only.
            own = "give the mapper the replicator's file and " if self._pipeline.group == ANY_GROUP else ""
            log.warning(
                "positions of %s from %d on are asked for, mappings are held from %d on, and no index has the rest: "
                "what it lacks is unknown. "
                "Raise offsetMapping.retention, or %smaterialize offset_mappings to have an index",
                source, lowest, since, own,
            )  # fmt: skip

    # -- reading ------------------------------------------------------------------------------------------------

    def _seen(self, topics: Iterable[str] = ()) -> SeenTopics:
        """The control topics and other ones of the target, which may be hidden."""
        control = [self._topic, self._pipeline.coordination.commit.topic]
        seen = self._target.seen_async([*topics, *control])()
        for name in seen.hidden.keys() & control:
            raise seen.hidden[name]
        if self._topic not in seen.topics:
            raise Refused(
                f"the mapping topic '{self._topic}' does not exist on the {self._target}. The replicator writes it, "
                "with 'features.offsetMapping: enabled'; start that first"
            )
        return seen

    def _follow_commits(self, described: Mapping[str, TopicDescription]) -> None:
        """Follows the commit topic if it exists; it may be created later than the mapping topic."""
        commits = described.get(self._pipeline.coordination.commit.topic)
        if commits:
            self._copied = CopiedPositions(self._pipeline, self._cluster, commits, self._target)

    def _followed(self, topic: TopicDescription, starts: Mapping[int, int]) -> TopicFollower:
        properties = self._pipeline.client_properties("target", "consumer")
        return TopicFollower(topic, self._target, properties, committed_only=True, starts=starts)

    def _begun_behind_index(self, topic: TopicDescription) -> TopicFollower:
        self._held.begin_behind_index(self._behind_index(), self._index.offsets)
        return self._followed(topic, self._index.offsets)

    def _behind_index(self) -> dict[SourcePartition, InMemoryMapping]:
        """Mappings that continue the index: its coverage, and the ends of its runs, which stay on disk."""
        reader = self._index.reader
        if reader is None:
            return {}
        found = {}
        doubtful = self._index.doubtful()
        for source in reader.sources():
            if source.cluster == self._cluster:
                known = reader.last_runs(source)
                told = reader.newest(source), source in doubtful, self._with_dropped
                found[source] = InMemoryMapping.behind(known, *told)
                self._began[source] = known.began, known.log_start, known.target_began
        return found

    def _read(self, ends: Mapping[TopicPartition, int], patience: float) -> None:
        if self._unreadable:
            raise self._unreadable  # the follower is past the unreadable record, which must not be ignored
        if self._index.take_missed():
            log.info("what the index cannot give any more is looked for in %s, from its start", self._topic)
            self._anew = True
        try:
            if self._anew:
                self._read_anew(patience)
            elif (anew := self._held.read_anew_to) and self._index.has_grown_to(anew):
                log.info("the index has read what was read from the start of %s: it is gone on from", self._topic)
                self._go_on_behind_index()
            for batch in self._follower.read_until(ends, patience):
                self._note_lost()
                for some in few_at_a_time(batch):
                    self._take(some)
        except (LateRecord, NotInMemory) as reason:
            log.info("the mappings are read from the start of %s again: %s", self._topic, reason)
            self._read_anew(patience)
        except UnreadableMapping as error:
            self._unreadable = error
            raise
        self._note_lost()

    def _take(self, messages: Iterable[Message]) -> None:
        for records, passed_over in self._messages.read(messages):
            self._held.take(records)
            self._held.doubt_some(passed_over)

    def _note_lost(self) -> None:
        for partition, start, end in self._follower.take_lost():
            self._held.doubt()
            log.warning(
                "records %d to %d of %s-%d were deleted before they were read: positions that they map are unknown",
                start, end - 1, self._topic, partition,
            )  # fmt: skip

    def _go_on_behind_index(self) -> None:
        """Begins as a new mapper does: with all that the topic has deleted since, which is in the index alone."""
        before, self._follower = self._follower, self._begun_behind_index(self._follower.topic)
        before.close()

    def _read_anew(self, patience: float) -> None:
        """Reads all mappings anew from the topic alone, in whatever order its partitions are read.

        That lasts until an index has read as far: what the topic has deleted is unknown until then.
        """
        self._anew = True
        while found := self._read_from_the_start(patience):
            which = plural(len(found), "source partition")
            log.info("mapping records of %s are out of order: read once more", which)
            self._out_of_order |= found
        self._anew = False

    def _read_from_the_start(self, patience: float) -> set[Owned]:
        """Reads the topic once from its start; returns source partitions whose records came out of order.

        Their mappings in memory are not valid.
        """
        before, self._follower = self._follower, self._followed(self._follower.topic, {})
        before.close()
        ends = self._follower.ends()
        self._held.begin_anew({tp.partition: end for tp, end in ends.items()})
        self._note_lost()  # nothing is in memory yet, so nothing becomes doubtful
        reading = ReadingAnew(self._held, self._messages, self._out_of_order)
        for batch in self._follower.read_until(ends, patience):
            reading.take(batch)
        return reading.finish()

    def _drop_if_due(self) -> None:
        """Drops runs from memory by `offsetMapping.retention`, if it is time."""
        if time.monotonic() < self._next_drop:
            return
        self._next_drop = time.monotonic() + self._retention.schedule.total_seconds()
        limit: int | None = None
        starts: Mapping[int, int] = {}
        if self._retention.time is None:
            starts = self._follower.log_starts()
        else:
            limit = int((time.time() - self._retention.time.total_seconds()) * 1000)
        self._held.drop(limit, starts, self._retention.count)
