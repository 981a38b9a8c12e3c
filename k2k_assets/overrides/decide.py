"""Decides an override from the request and the state of the clusters: the records to write, or a refusal. Pure.

```
 position before   3                                log now   [8 ...... 20)
 earliest          3 ── skipped ── 8                the mapping covers [3, 8) without runs: no record of it was copied
 position before   12
 5                 5 <── again ── 12                the mapping from 5 on is cancelled: these records are copied again
```
"""

from __future__ import annotations

from dataclasses import dataclass

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.errors import Refused
from k2k_assets.core.stops.reason import StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import plural
from k2k_assets.overrides.request import Request, Where


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """The present state of one source partition.

    Attributes:
        source: The source partition.
        record: Its newest commit record; None if there is none, or it cannot be read.
        unreadable: Why that record cannot be read; None if it can.
        source_topic_id: Id of the source topic.
        target_topic: Target topic.
        target_topic_id: Id of the target topic; None if it does not exist (it is created before anything is written).
        start: Log start of the source.
        readable: `Pipeline.readable_end` of the source.
        end: High watermark of the source.
        target_end: High watermark of its target partition; None where several partitions feed it.
        cut_off: Where the log of the source was cut off below the position and has grown again: it holds other records
            from there on than were copied. None if it was not, or if that is not known.
        is_log_unknown: Whether nobody could tell up to where the log is the one that was copied.
        lost_from: First source offset whose copy the target has lost, where it was truncated; else None.
        noted: Why the partition is stopped, if it has no position and that is noted; else None.
    """

    source: TopicPartition
    record: CommitRecord | None
    unreadable: str | None
    source_topic_id: str
    target_topic: str
    target_topic_id: str | None
    start: int
    readable: int
    end: int
    target_end: int | None
    cut_off: int | None = None
    is_log_unknown: bool = False
    lost_from: int | None = None
    noted: StopReason | None = None

    @property
    def new_source(self) -> bool:
        """Whether the source topic was created anew since the record."""
        return self.record is not None and self.record.source_topic_id != self.source_topic_id

    @property
    def new_target(self) -> bool:
        """Whether the target topic was created anew since the record."""
        known = self.record
        return (
            known is not None
            and known.target_topic == self.target_topic
            and (known.target_topic_id != self.target_topic_id)
        )


@dataclass(frozen=True, slots=True)
class Override:
    """The change for one partition.

    Attributes:
        facts: The state before.
        position: The new position.
        accepted: Texts on what else the user accepted, such as a new topic.
        stays: Whether the position stays (`current`), together with the leader epoch that is known there.
    """

    facts: PartitionFacts
    position: int
    accepted: tuple[str, ...]
    stays: bool

    @property
    def before(self) -> int | None:
        """The position before, in the same source topic; None if there was none."""
        return self.facts.record.position if self.facts.record and not self.facts.new_source else None

    @property
    def skipped(self) -> range:
        """Source offsets that are never copied, or whose copies are lost."""
        if self.before is None:
            return range(self.position, self.position)
        begins = [self.before]
        if self.facts.cut_off is not None and not self.stays:
            begins.append(self.facts.cut_off)
        if self.facts.lost_from is not None:
            begins.append(self.facts.lost_from)
        return range(min(begins), self.position)

    @property
    def again(self) -> range:
        """Source offsets that are copied a second time, if they still exist."""
        return range(self.position, self.position if self.before is None else self.before)


def decide_override(facts: PartitionFacts, where: Where, request: Request) -> Override:
    """Decides about one partition.

    Raises:
        Refused: The override is not possible, or needs another option of the command.
    """
    if request.adopts is not None:
        _ensure_adoptable(facts, request.adopts[facts.source])
    accepted = [*_accept_new_topics(facts, request)]
    if request.foreign_records:
        accepted.append("what others wrote to the target partition")
    found = Override(facts, _position(facts, where), tuple(accepted), stays=where == "current")
    _ensure_log_known(found)
    return found


def _ensure_log_known(found: Override) -> None:
    """Refuses a position behind copies of which nobody knows whether the source still has their records.

    It would accept the log as it is, and positions in what was lost would count as exact. Below the position `current`
    nothing is accepted; from the log start on all is copied again.
    """
    facts = found.facts
    if facts.is_log_unknown and not facts.new_source and not found.stays and found.position > facts.start:
        raise Refused(
            f"{facts.source}: whether the source still holds what was copied below {found.position} cannot be told now "
            "(its leader was asked). Start again; 'earliest' copies all that it holds, and needs no answer"
        )


def _ensure_adoptable(facts: PartitionFacts, target_end: int) -> None:
    """Refuses to adopt a copy of a partition that is copied already, or that another tool still copies."""
    if facts.record is not None or facts.unreadable:
        raise Refused(f"{facts.source} has a position already: k2k-tool set changes it, and adopts nothing")
    if facts.target_end != target_end:
        raise Refused(
            f"{facts.source}: its target partition ended at {target_end}, and now at {facts.target_end}: somebody "
            "still writes there. Stop the other tool first, then start again"
        )


def _accept_new_topics(facts: PartitionFacts, request: Request) -> list[str]:
    record = facts.record
    if record is None:
        return []
    found = []
    if facts.new_source:
        found.append(f"source topic id {record.source_topic_id} is now {facts.source_topic_id}")
    if facts.new_target:
        found.append(f"target topic id {record.target_topic_id} is now {facts.target_topic_id or 'none'}")
    if found and not request.new_topic:
        raise Refused(
            f"{facts.source}: a topic was deleted and created anew ({'; '.join(found)}). To go on with the new one add "
            "--accept-new-topic"
        )
    return found


def _position(facts: PartitionFacts, where: Where) -> int:
    if where == "earliest":
        return facts.start
    if where == "latest":
        return facts.readable
    source = facts.source
    if where == "current":
        if facts.record is None:
            raise Refused(f"{source} has no position{_why(facts)}: give an offset, 'earliest' or 'latest'")
        if facts.new_source:
            raise Refused(
                f"{source}: position {facts.record.position} is one of the topic that was deleted; give an offset of "
                "the new one, 'earliest' or 'latest'"
            )
        where = facts.record.position
    if not facts.start <= where <= facts.end:
        why = f"beyond the end, {facts.end}" if where > facts.end else f"before the log start, {facts.start}"
        raise Refused(
            f"{source}: offset {where} is not in the source, which holds {facts.start} to {facts.end}: it lies {why}. "
            "Give one of those, 'earliest' or 'latest'"
        )
    return where


def _why(facts: PartitionFacts) -> str:
    return f" that can be read ({facts.unreadable})" if facts.unreadable else ""


def describe_override(override: Override) -> str:
    """One line of text on the change."""
    facts, words = override.facts, []
    if skipped := override.skipped:
        they = "it is" if len(skipped) == 1 else "they are"
        what = "not on the target" if facts.lost_from is not None else "never copied"
        words.append(f"skips {plural(len(skipped), 'offset')}, {skipped.start} to {skipped[-1]}: {they} {what}")
    if again := override.again:
        last = min(again[-1], facts.end - 1)
        what = f"{again.start} to {last} a second time" if last >= again.start else "what comes from there on"
        words.append(f"copies {what}")
    words += [f"accepts {what}" for what in override.accepted]
    before = "-" if facts.record is None else str(facts.record.position)
    return f"{facts.source}: {before} -> {override.position}" + (f"   {'; '.join(words)}" if words else "")
