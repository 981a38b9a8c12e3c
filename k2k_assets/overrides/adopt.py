"""Adopts a copy that another tool began: copying goes on behind it, and nothing is copied again.

It looks at both clusters, says what would be written and what is doubtful, and writes through `override`, as an
instance of a new generation, once the other tool and all instances of the pipeline are stopped. Of what lies below the
adopted positions the exact mapping knows nothing: positions in it are translated to nothing, never to a guess.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from k2k_assets.control.commit_log import read_commit_log
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import abbreviate, plural, utc
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.overrides.adopted_table import AdoptedPosition, AdoptedTable
from k2k_assets.overrides.apply import override
from k2k_assets.overrides.decide import Override
from k2k_assets.overrides.offset_snapshot import OffsetSnapshot, take_snapshot
from k2k_assets.overrides.request import Request, Wanted
from k2k_assets.overrides.seam import Log, look_at_seam
from k2k_assets.pipeline import Pipeline

_DESCRIBED = 5


@dataclass(frozen=True, slots=True)
class Adoption:
    """What would be adopted.

    Attributes:
        positions: By source partition.
        target_ends: High watermark of the target partition of each.
        doubts: What does not fit, in words, by source partition.
        fitting: Positions that would fit, of doubtful partitions.
        begins: Source partitions that the table does not name, of which nothing is on the target, and where the next
            start begins to copy them, in words.
    """

    positions: Mapping[TopicPartition, AdoptedPosition]
    target_ends: Mapping[TopicPartition, int]
    doubts: Mapping[TopicPartition, str] = field(default_factory=dict)
    fitting: Mapping[TopicPartition, int] = field(default_factory=dict)
    begins: Mapping[TopicPartition, str] = field(default_factory=dict)

    def following_the_target(self) -> Adoption:
        """The same with the positions that fit, where there are any."""
        fitted = {
            tp: replace(self.positions[tp], offset=offset, told=f"as the target ends, not {self.positions[tp].offset}")
            for tp, offset in self.fitting.items()
        }
        left = {tp: words for tp, words in self.doubts.items() if tp not in fitted}
        return replace(self, positions={**self.positions, **fitted}, doubts=left, fitting={})


def plan_adoption(pipeline: Pipeline, source: Cluster, target: Cluster, table: AdoptedTable) -> Adoption:
    """Looks at both clusters; changes nothing.

    Args:
        pipeline: The pipeline.
        source: The source cluster.
        target: The target cluster.
        table: How far the other tool has copied.

    Raises:
        Refused: The copy cannot be adopted.
        ClusterUnreachable: A cluster does not answer.
    """
    if table.cluster is not None and table.cluster != source.cluster_id():
        raise Refused(f"{table.name} is of cluster {table.cluster}, and the {source} is {source.cluster_id()}")
    snapshot = take_snapshot(pipeline, source, target, None)
    if not snapshot.one_to_one:
        raise Refused(
            "several source partitions feed one target partition here (a static topic, or partition: producer): what "
            "another tool has written there cannot be told apart. Positions alone are set by k2k-tool set"
        )
    log = read_commit_log(pipeline, snapshot.cluster_id, target)
    if log.positions or log.unreadable or log.passed_over:
        raise Refused(
            f"group {pipeline.group} has positions already, so there is nothing to adopt: {abbreviate(log.positions)}. "
            "k2k-tool set changes single ones; to adopt all the same give the pipeline another group.id"
        )
    adopted = {tp: at for tp, at in table.positions.items() if tp.topic in snapshot.topics}
    if not adopted:
        raise Refused(f"{table.name} names no topic that the pipeline selects: {abbreviate(table.positions)}")
    starts = target.offsets([TopicPartition(t.name, p) for t in snapshot.targets.values() for p in range(t.partitions)],
                            "earliest")  # fmt: skip
    _ensure_fits(pipeline, snapshot, adopted, table.name)
    begins = _not_named(pipeline, snapshot, adopted, starts, table.name)
    ends = {tp: snapshot.target_ends[_target(pipeline, tp)] for tp in adopted}
    known = {tp.topic for tp in adopted}
    adoption = Adoption(adopted, ends, begins={tp: _beginning(pipeline, tp, known) for tp in begins})
    return _with_doubts(pipeline, snapshot, target, adoption, starts)


def adopt(
    pipeline: Pipeline,
    source: Cluster,
    target: Cluster,
    adoption: Adoption,
    by: str,
    why: str | None,
    force: bool = False,
) -> list[Override]:
    """Writes the positions.

    Args:
        pipeline: The pipeline.
        source: The source cluster.
        target: The target cluster.
        adoption: What was planned.
        by: User and host.
        why: Where the positions are from.
        force: Whether to take the partitions from an instance that has claimed them.

    Raises:
        Refused: An instance runs, the other tool still writes, or something has changed since; nothing was written.
        ClusterUnreachable: A cluster does not answer.
    """
    wanted = tuple(Wanted(tp.topic, tp.partition, at.offset) for tp, at in adoption.positions.items())
    request = Request(wanted, by, why, adopts=adoption.target_ends)
    return override(pipeline, source, target, request, force=force)


def _target(pipeline: Pipeline, tp: TopicPartition) -> TopicPartition:
    return TopicPartition(pipeline.routing.target_topic(tp.topic), tp.partition)


def _ensure_fits(
    pipeline: Pipeline, snapshot: OffsetSnapshot, adopted: Mapping[TopicPartition, AdoptedPosition], name: str
) -> None:
    faults = []
    for tp, at in sorted(adopted.items()):
        to = _target(pipeline, tp)
        if tp.partition >= snapshot.topics[tp.topic].partitions:
            faults.append(
                f"{tp} does not exist: the source topic has {plural(snapshot.topics[tp.topic].partitions, 'partition')}"
            )
        elif to.topic not in snapshot.targets:
            faults.append(f"{tp}: the target topic {to.topic} does not exist")
        elif to not in snapshot.target_ends:
            faults.append(f"{tp}: the target topic {to.topic} has no partition {to.partition}")
        elif not snapshot.starts[tp] <= at.offset <= snapshot.ends[tp]:
            held = f"{snapshot.starts[tp]} to {snapshot.ends[tp]}"
            faults.append(f"{tp}: offset {at.offset} is not in the source, which holds {held}")
        elif at.target_offset is not None and at.target_offset > snapshot.target_ends[to]:
            faults.append(
                f"{tp}: target offset {at.target_offset} lies beyond the end of {to}, {snapshot.target_ends[to]}"
            )
    _refuse(faults, f"{name} does not fit")


def _not_named(
    pipeline: Pipeline,
    snapshot: OffsetSnapshot,
    adopted: Mapping[TopicPartition, AdoptedPosition],
    target_starts: Mapping[TopicPartition, int],
    name: str,
) -> list[TopicPartition]:
    """The selected partitions that the table does not name; they are copied as new ones, so nothing may be there."""
    missing = [tp for tp in snapshot.partitions if tp not in adopted]
    filled = [
        tp for tp in missing if snapshot.target_ends.get(to := _target(pipeline, tp), 0) > target_starts.get(to, 0)
    ]
    _refuse([f"{tp}: {_target(pipeline, tp)} on the target holds records" for tp in filled],
            f"{name} does not name partitions that were copied, and would be copied again")  # fmt: skip
    return missing


def _beginning(pipeline: Pipeline, tp: TopicPartition, known: Collection[str]) -> str:
    """Where a start begins to copy a partition without a position, in words.

    Args:
        pipeline: The pipeline.
        tp: The partition.
        known: Topics of which other partitions have a position.
    """
    start, reset = pipeline.start_of(tp.topic), pipeline.start_from(tp.topic)
    if isinstance(start, dict) and tp.partition in start.get(tp.topic, {}):
        return f"it begins at offset {start[tp.topic][tp.partition]}, as `start` says"
    if tp.topic in known or isinstance(start, dict) or reset == "earliest":
        return "it begins at its start"
    if isinstance(start, int):
        return f"it begins at its first record of {utc(start)} or later, as `start` says: none before is copied"
    said = "`start`" if start else "auto.offset.reset"
    if reset == "none":
        return f"the next start refuses it ({said}: none)"
    return f"it begins at its end, as {said} says: no record that it holds is copied"


def _refuse(faults: list[str], what: str) -> None:
    if faults:
        rest = len(faults) - _DESCRIBED
        more = f"\n  and {rest} more" if rest > 0 else ""
        raise Refused(f"{what}; nothing was written:\n  " + "\n  ".join(faults[:_DESCRIBED]) + more)


def _with_doubts(
    pipeline: Pipeline,
    snapshot: OffsetSnapshot,
    target: Cluster,
    adoption: Adoption,
    target_starts: Mapping[TopicPartition, int],
) -> Adoption:
    reading = {role: pipeline.client_properties(role, "consumer") for role in ("source", "target")}
    stable = target.offsets([_target(pipeline, tp) for tp in adoption.positions], "stable")
    doubts: dict[TopicPartition, str] = {}
    fitting: dict[TopicPartition, int] = {}
    for tp, at in sorted(adoption.positions.items()):
        to = _target(pipeline, tp)
        if stable[to] < adoption.target_ends[tp]:
            doubts[tp] = f"a transaction is open in {to}: is the other tool still running?"
            continue
        here = Log(reading["source"], tp, snapshot.starts[tp], snapshot.readable[tp])
        there = Log(reading["target"], to, target_starts[to], stable[to])
        seam = look_at_seam(here, there, at.offset)
        if not seam.fits:
            doubts[tp] = seam.words
            if seam.fitting is not None:
                fitting[tp] = seam.fitting
        elif at.target_offset is not None and (behind := there.read(at.target_offset, stable[to])):
            doubts[tp] = (
                f"{to} holds records behind target offset {at.target_offset}, the first at {behind[0].offset()}"
            )
    return replace(adoption, doubts=doubts, fitting=fitting)
