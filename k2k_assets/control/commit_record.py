"""The commit record: how far a source partition has been copied, in the transaction that copied it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from k2k_assets.core import json_codec
from k2k_assets.core.stops.document import document_of, reason_of
from k2k_assets.core.stops.reason import StopReason, render
from k2k_assets.core.topic_partition import TopicPartition

VERSION = 1
Kind = Literal["start", "commit", "release", "override"]


@dataclass(frozen=True, slots=True)
class Overridden:
    """What an override put aside, by whom and why.

    Attributes:
        by: Who did it: user and host.
        why: In their words; None if they gave none.
        position: Before it; None if none was known.
        source_topic_id: Before it.
        target_topic_id: Before it.
        stopped: Why the partition was stopped before it; None if it was not.
    """

    by: str
    why: str | None
    position: int | None
    source_topic_id: str | None
    target_topic_id: str | None
    stopped: StopReason | None

    def document(self) -> dict[str, Any]:
        """As a JSON document."""
        return {
            "by": self.by,
            "why": self.why,
            "position": self.position,
            "sourceTopicId": self.source_topic_id,
            "targetTopicId": self.target_topic_id,
            **_stop("stopped", self.stopped),
        }

    @classmethod
    def of(cls, document: dict[str, Any] | None) -> Overridden | None:
        """From a JSON document."""
        if document is None:
            return None
        return cls(
            by=document["by"],
            why=document["why"],
            position=document["position"],
            source_topic_id=document["sourceTopicId"],
            target_topic_id=document["targetTopicId"],
            stopped=_reason(document, document["stopped"]),
        )


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One record of the commit topic.

    Attributes:
        group: Identity of the progress.
        cluster: Source cluster id.
        source: Source partition.
        kind: start (nothing copied yet), commit, release (the owner left), override (set by hand).
        pipeline: Name of the pipeline.
        position: Next source offset to copy.
        leader_epoch: Of the last record copied; None if unknown.
        source_topic_id: Source topic id.
        target_topic: Where the records went.
        target_topic_id: Its id.
        target_end: Target offset after the last record copied; None where several partitions are fed, or none yet.
        generation: Of the instance.
        slot: Which copied it.
        sequence: Rises with each transaction of the slot.
        time: Milliseconds since the epoch, UTC.
        records: Records copied by this generation so far.
        bytes_: Value bytes copied by this generation so far.
        runs: Runs written by this generation so far.
        reason: Why the partition was stopped; None if it was not.
        began: Position at which copying of the partition began; None in records of releases that did not note it.
        log_start: Log start of the source partition at that time: what lay between the two is not on the target. None
            in records of releases that did not note it.
        overridden: What an override put aside; None in records of other kinds.
        epoch_end: Offset after the last record copied, where `leader_epoch` holds; None if that is the position.
    """

    group: str
    cluster: str
    source: TopicPartition
    kind: Kind
    pipeline: str
    position: int
    leader_epoch: int | None
    source_topic_id: str
    target_topic: str
    target_topic_id: str
    target_end: int | None
    generation: int
    slot: int
    sequence: int
    time: int
    records: int = 0
    bytes_: int = 0
    runs: int = 0
    reason: StopReason | None = None
    began: int | None = None
    overridden: Overridden | None = None
    epoch_end: int | None = None
    log_start: int | None = None

    @property
    def order(self) -> tuple[int, int]:
        """The newest record of a key is the one with the highest order, wherever it lies."""
        return self.generation, self.sequence

    def key_bytes(self) -> bytes:
        """The record's key."""
        return key_bytes(self.group, self.cluster, self.source)

    def value_bytes(self) -> bytes:
        """The record's value."""
        rare: dict[str, Any] = {} if self.epoch_end is None else {"leaderEpochEnd": self.epoch_end}
        if self.log_start is not None:
            rare["logStart"] = self.log_start
        if self.overridden:
            rare["overridden"] = self.overridden.document()
        return json_codec.encode(
            {
                "version": VERSION,
                "kind": self.kind,
                "pipeline": self.pipeline,
                "position": self.position,
                "leaderEpoch": self.leader_epoch,
                "sourceTopicId": self.source_topic_id,
                "target": {"topic": self.target_topic, "id": self.target_topic_id},
                "targetEnd": self.target_end,
                "generation": self.generation,
                "slot": self.slot,
                "sequence": self.sequence,
                "time": self.time,
                "records": self.records,
                "bytes": self.bytes_,
                "runs": self.runs,
                **_stop("reason", self.reason),
                "began": self.began,
                **rare,
            }
        )

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None, where: str) -> CommitRecord:
        """Reads a record.

        Raises:
            ValueError: It cannot be read, or a newer release wrote it.
        """
        group, cluster, source = parse_key(key, where)
        body = json_codec.decode(value, where)
        json_codec.check_version(body, VERSION, where)
        try:
            return cls(
                group=group,
                cluster=cluster,
                source=source,
                kind=body["kind"],
                pipeline=body["pipeline"],
                position=int(body["position"]),
                leader_epoch=body["leaderEpoch"],
                source_topic_id=body["sourceTopicId"],
                target_topic=body["target"]["topic"],
                target_topic_id=body["target"]["id"],
                target_end=body["targetEnd"],
                generation=int(body["generation"]),
                slot=int(body["slot"]),
                sequence=int(body["sequence"]),
                time=int(body["time"]),
                records=body.get("records", 0),
                bytes_=body.get("bytes", 0),
                runs=body.get("runs", 0),
                reason=_reason(body, body.get("reason")),
                began=body.get("began"),
                overridden=Overridden.of(body.get("overridden")),
                epoch_end=body.get("leaderEpochEnd"),
                log_start=body.get("logStart"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{where}: field missing or of a wrong type: {error}") from None


def _stop(name: str, reason: StopReason | None) -> dict[str, Any]:
    """A reason as its text, which releases without codes read, and as a document beside it."""
    return {name: None} if reason is None else {name: render(reason, with_code=False), "stop": document_of(reason)}


def _reason(document: dict[str, Any], text: str | None) -> StopReason | None:
    return None if text is None else reason_of(document.get("stop"), str(text))


def key_bytes(group: str, cluster: str, source: TopicPartition) -> bytes:
    """The key of a partition's commit records."""
    return json_codec.encode({"group": group, "cluster": cluster, "topic": source.topic, "partition": source.partition})


def is_other_kind(key: bytes | None) -> bool:
    """Whether the key is of an assignment record: those name their kind first."""
    return key is not None and key.startswith(b'{"kind":')


def parse_key(key: bytes | None, where: str) -> tuple[str, str, TopicPartition]:
    """Group, source cluster id and source partition of a key.

    Raises:
        ValueError: It is no key of a commit record.
    """
    head = json_codec.decode(key, f"{where}, key")
    try:
        return head["group"], head["cluster"], TopicPartition(head["topic"], int(head["partition"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{where}, key: field missing or of a wrong type: {error}") from None
