"""All reasons why a partition or a topic is stopped. A new one is one class here, and nothing else.

`docs/stops.md` is made from this list (`make docs`), in this order. `FILE` in a command is the pipeline file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from k2k_assets.core.stops.reason import KINDS, StopReason
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.core.words import ACLS_HINT, plural

_ORDERS = TopicPartition("orders", 0)
_COPY = TopicPartition("copy.orders", 0)


def set_command(topic: str, partition: int | None, where: object, *flags: str) -> str:
    """The `k2k-tool set` that overrides a position.

    Args:
        topic: Source topic.
        partition: Source partition; None: all of the topic.
        where: An offset, `earliest`, `latest` or `current`.
        flags: Further options.
    """
    which = "all" if partition is None else partition
    return " ".join(["k2k-tool set -f FILE -o", f"{topic}:{which}:{where}", *flags])


# -- the source no longer holds what was copied, or is to be copied -------------------------------------------------


@dataclass(frozen=True)
class RecordsDeleted(StopReason, code="records-deleted"):
    """The source deleted records before they were copied.

    Attributes:
        source: The source partition.
        position: The next offset to copy.
        log_start: The first offset that the source holds.
    """

    title = "records were deleted from the source before they were copied"
    meaning = (
        "Retention, or `kafka-delete-records.sh`, was faster than the copy. What is gone cannot be copied any more."
    )
    advice = (
        "`earliest` goes on at the log start; the range that is gone is noted as skipped. Then raise `retention.ms` of "
        "the source topic, or let the pipeline run without long breaks."
    )

    source: TopicPartition
    position: int
    log_start: int

    def found(self) -> str:
        return (
            f"records {self.position} to {self.log_start - 1} were deleted from the source before they were copied "
            f"(retention, or delete-records): it now starts at {self.log_start}"
        )

    def to_do(self) -> str:
        return f"To go on without them: {set_command(*self.source, 'earliest')}"

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, position=3, log_start=8)


@dataclass(frozen=True)
class SourceTruncated(StopReason, code="source-truncated"):
    """The source ends before the position.

    Attributes:
        source: The source partition.
        position: The next offset to copy.
        log_end: The offset after the last one that the source holds.
    """

    title = "the source was truncated: it ends before the position"
    meaning = (
        "The source lost records that were copied, for example by an unclean leader election. The target holds records "
        "that are no longer on the source."
    )
    advice = (
        "`latest` goes on with what is written from now on. If you know where the log was cut off, give that offset: "
        "what was written since is copied too."
    )

    source: TopicPartition
    position: int
    log_end: int

    def found(self) -> str:
        return (
            f"the source ends at {self.log_end}, before position {self.position}: its log was truncated, and what was "
            "copied from there on no longer exists on the source"
        )

    def to_do(self) -> str:
        return (
            f"To go on with what is written from now on: {set_command(*self.source, 'latest')}; or give the offset "
            "from which the source holds other records than were copied"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, position=100, log_end=40)


@dataclass(frozen=True)
class StartOutsideLog(StopReason, code="start-outside-log"):
    """The pipeline file says where to begin, and the source has no such offset.

    Attributes:
        source: The source partition.
        position: Where to begin.
        log_start: The first offset that the source holds.
        log_end: The offset after the last one.
    """

    title = "`start` names an offset that the source does not have"
    meaning = (
        "The partition was never copied, and `replication[].source.start` gives it an offset before the log start or "
        "behind the end. Nothing was copied, and nothing is lost."
    )
    advice = "Correct `start` in the pipeline file. Or set the position by hand: from then on `start` no longer counts."

    source: TopicPartition
    position: int
    log_start: int
    log_end: int

    def found(self) -> str:
        return (
            f"replication[].source.start says that {self.source} begins at {self.position}, but the source holds "
            f"offsets from {self.log_start} to {self.log_end}"
        )

    def to_do(self) -> str:
        return f"Correct it, or begin at the log start: {set_command(*self.source, 'earliest')}"

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, position=5, log_start=8, log_end=40)


@dataclass(frozen=True)
class SourceDiverged(StopReason, code="source-diverged"):
    """The source log was truncated below the position and has grown again.

    Attributes:
        source: The source partition.
        position: The next offset to copy.
        epoch_end: Where the leader epoch of what was copied ends now; None if that is not known.
        words: What the client said.
    """

    title = "the source was truncated and has grown again"
    meaning = (
        "The leader epoch tells it (KIP-320). From the cut-off on the source holds other records than were copied, "
        "though the offsets are the same."
    )
    advice = (
        "The offset of the cut-off copies what is there now from there on, behind what was copied. The position goes "
        "on without it."
    )

    source: TopicPartition
    position: int
    epoch_end: int | None
    words: str = ""

    def found(self) -> str:
        if self.epoch_end is None:
            return (
                f"the source log was truncated below position {self.position} and has grown again ({self.words}): what "
                "is copied is no longer what the source holds"
            )
        return (
            f"the source log was truncated at {self.epoch_end}, below position {self.position}, and has grown again "
            f"(leader epoch): records {self.epoch_end} to {self.position - 1} that were copied are no longer those of "
            "the source"
        )

    def to_do(self) -> str:
        if self.epoch_end is None:
            return f"To go on: {set_command(*self.source, 'OFFSET')} with the offset at which it was cut off"
        return (
            f"To copy what is there now, behind what was copied: {set_command(*self.source, self.epoch_end)}; to go on "
            f"without it: {set_command(*self.source, self.position)}"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, position=100, epoch_end=40)


@dataclass(frozen=True)
class LaterLeaderEpoch(StopReason, code="later-leader-epoch"):
    """The source is now read uncommitted: below the position may lie records that were left out, or are new.

    Attributes:
        source: The source partition.
        first: Offset of the first of them.
        position: Where copying goes on.
    """

    title = "records before the position are of a later leader epoch"
    meaning = (
        "`isolation.level` was changed to `read_uncommitted`, and the source did not say in time whether the records "
        "are aborted ones, which need no copy, or others."
    )
    advice = "The position goes on without them; the offset of the first one copies them."

    source: TopicPartition
    first: int
    position: int

    def found(self) -> str:
        return (
            f"the records from {self.first} to {self.position - 1} of the source, before the position, are of a later "
            "leader epoch than what was copied last. Either they are aborted ones, left out while isolation.level was "
            "read_committed, or the source log was truncated there and has grown again; the source did not say in time "
            "which"
        )

    def to_do(self) -> str:
        return (
            f"To go on without them: {set_command(*self.source, self.position)}; to copy them: "
            f"{set_command(*self.source, self.first)}"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, first=96, position=100)


@dataclass(frozen=True)
class OffsetOutOfRange(StopReason, code="offset-out-of-range"):
    """The source refuses the offset and does not say which range it holds.

    Attributes:
        source: The source partition.
        offset: Which was asked for.
        words: What the source said.
    """

    title = "the source no longer holds the offset"
    meaning = "Records were deleted or the log was truncated; the source did not say which range it holds now."
    advice = (
        "`earliest` goes on at the log start. First look with `k2k-tool describe` whether the source answers again."
    )

    source: TopicPartition
    offset: int
    words: str

    def found(self) -> str:
        return (
            f"the source no longer holds offset {self.offset} ({self.words}): records were deleted or the log was "
            "truncated before they were copied"
        )

    def to_do(self) -> str:
        return f"To go on at what it begins with now: {set_command(*self.source, 'earliest')}"

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, offset=100, words="Broker: Offset out of range")


@dataclass(frozen=True)
class SourceDeleted(StopReason, code="source-deleted"):
    """The source topic does not exist.

    Attributes:
        topic: Its name.
        while_copied: Whether that was found in the middle of the copy.
    """

    title = "the source topic was deleted"
    meaning = "What was copied stays on the target, and the position stays noted."
    advice = (
        "Take the topic out of the pipeline, or create it; the command copies the new topic from its beginning, behind "
        "what was copied of the old one."
    )

    topic: str
    while_copied: bool = False

    def found(self) -> str:
        what = "was deleted while it was copied" if self.while_copied else "is gone"
        return f"the source topic {self.topic} {what}"

    def to_do(self) -> str:
        again = _accept_the_new_topic(self.topic, "earliest")
        return f"If it was deleted on purpose, take it out of the pipeline; if it is created anew: {again}"

    @classmethod
    def example(cls) -> Self:
        return cls("orders")


@dataclass(frozen=True)
class SourceRecreated(StopReason, code="source-recreated"):
    """Another source topic has the name now.

    Attributes:
        topic: Its name.
        expected_id: Topic id of the one that was copied.
        found_id: Topic id of the one that is there.
        position: Up to where this partition was copied; None if the other one did not have it, or while it was copied.
        while_copied: Whether that was found in the middle of the copy.
    """

    title = "the source topic was deleted and created anew"
    meaning = "The topic id tells it. The offsets of the new topic mean other records than those that were copied."
    advice = "The command copies the new topic from its beginning, behind what was copied of the old one."

    topic: str
    expected_id: str
    found_id: str
    position: int | None = None
    while_copied: bool = False

    def found(self) -> str:
        ids = f"(topic id {self.expected_id} is now {self.found_id})"
        if self.while_copied:
            return (
                f"the source topic {self.topic} was deleted and created anew while it was copied {ids}; what was in "
                "hand was not committed"
            )
        if self.position is None:
            return f"the source topic was deleted and created anew {ids}, so nothing of it is copied yet"
        return (
            f"the source topic was deleted and created anew {ids}, so offsets before {self.position} mean other records"
        )

    def to_do(self) -> str:
        return _copy_the_new_topic(self.topic)

    @classmethod
    def example(cls) -> Self:
        return cls("orders", "TBO7reAwRAGpzqIiqsILtQ", "BwGPWE0CQqCQInd82LFX6Q", position=3)


@dataclass(frozen=True)
class FewerPartitions(StopReason, code="fewer-partitions"):
    """The source topic has fewer partitions than it had.

    Attributes:
        topic: Its name.
        partitions: How many it has.
    """

    title = "the source topic has fewer partitions than were copied"
    meaning = "Kafka takes no partition away from a topic, so the topic was deleted and created anew."
    advice = "The command copies the new topic from its beginning, behind what was copied of the old one."

    topic: str
    partitions: int

    def found(self) -> str:
        return f"the source topic has only {self.partitions} partitions left: it was deleted and created anew"

    def to_do(self) -> str:
        return _copy_the_new_topic(self.topic)

    @classmethod
    def example(cls) -> Self:
        return cls("orders", partitions=1)


@dataclass(frozen=True)
class TopicNotFound(StopReason, code="topic-not-found"):
    """A topic that has an asset in Dagster is not on the source."""

    title = "the topic of an asset is not on the source"
    meaning = "The definitions were loaded when the source had the topic, and may see it."
    advice = "Reload the definitions. If the topic is there, grant Describe on it (`k2k acls -f FILE`)."

    def found(self) -> str:
        return "it is not on the source any more, or may not be described there"

    def to_do(self) -> str:
        return "Reload the definitions to see the topics of today"

    @classmethod
    def example(cls) -> Self:
        return cls()


# -- what the source does not give away -----------------------------------------------------------------------------


@dataclass(frozen=True)
class SourceHidden(StopReason, code="source-hidden"):
    """The principal may not see the source topic any more.

    Attributes:
        topic: Its name.
        cluster: The cluster, in words.
    """

    title = "the source does not let the topic be seen"
    meaning = "The principal has lost Describe and Read on the topic."
    advice = "Grant them again; the next start copies on from the position."

    topic: str
    cluster: str

    def found(self) -> str:
        return f"the {self.cluster} does not let the topic {self.topic} be seen"

    def to_do(self) -> str:
        return ACLS_HINT

    @classmethod
    def example(cls) -> Self:
        return cls("orders", "source cluster at kafka-a:9092")


@dataclass(frozen=True)
class SourceReadDenied(StopReason, code="source-read-denied"):
    """The principal may not read the source topic any more.

    Attributes:
        topic: Its name.
        words: What the source said.
    """

    title = "the source does not let the topic be read"
    meaning = "The principal has lost Read on the topic."
    advice = "Grant Read on it again; the next start copies on from the position."

    topic: str
    words: str

    def found(self) -> str:
        return f"the source does not let the topic {self.topic} be read ({self.words})"

    def to_do(self) -> str:
        return f"Grant Read on the topic; {ACLS_HINT}"

    @classmethod
    def example(cls) -> Self:
        return cls("orders", "Broker: Topic authorization failed")


@dataclass(frozen=True)
class LeaderMissing(StopReason, code="no-leader"):
    """A partition, on the source or on the target, had no leader for as long as a run with an end waits.

    Attributes:
        words: Which partition, and what its cluster said.
    """

    title = "a partition has no leader, in a run with an end"
    meaning = (
        "The brokers that hold the partition, on the source or on the target, are down. `k2k start` without an end "
        "goes on with the other partitions and takes this one up when it has a leader."
    )
    advice = (
        "Bring back the brokers that hold it. A target partition whose only replica went in the middle of a "
        "transaction may come back with that transaction hanging, as Kafka 4.3.1 forgets its marker: it is then "
        "stopped by [`open-transaction`](#open-transaction)."
    )

    words: str

    def found(self) -> str:
        return self.words

    def to_do(self) -> str:
        return "Nothing was skipped: the next run copies on from its position"

    @classmethod
    def example(cls) -> Self:
        return cls(
            "the source cluster at kafka-a:9092 has no leader that answers for orders-0 (Broker: Leader not available)"
        )


# -- records that cannot be copied ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class BatchUnreadable(StopReason, code="batch-unreadable"):
    """A batch of the source is corrupt, or in an unknown format.

    Attributes:
        source: The source partition.
        offset: At or after which offset.
        words: What the client said.
    """

    title = "a batch of the source cannot be read"
    meaning = (
        "It is corrupt on the broker's disk, or in a format that the client does not know. What lies before it is "
        "copied."
    )
    advice = (
        "If another replica holds a good copy, make it the leader and start again. Else give the offset behind the "
        "batch: the range is noted as skipped."
    )

    source: TopicPartition
    offset: int
    words: str

    def found(self) -> str:
        return (
            f"the batch at or after offset {self.offset} of the source cannot be read ({self.words}): it is corrupt on "
            "the broker, or in a format that the client does not know"
        )

    def to_do(self) -> str:
        return (
            f"To go on behind it: {set_command(*self.source, 'OFFSET')} with the offset at which the next batch begins"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, offset=100, words="Local: Bad message format")


@dataclass(frozen=True)
class HeaderUnreadable(StopReason, code="header-key-not-utf8"):
    """A record has a header that the client cannot read.

    Attributes:
        source: The source partition.
        offset: Of the record.
        key: Of the header, as Python writes bytes, cut off where it is long.
    """

    title = "a record has a header whose key is not UTF-8"
    meaning = "The client can neither read nor write such a header. All before the record is copied."
    advice = (
        "The next offset goes on behind the record, without it. Or copy that topic without headers "
        "(`headerReplication: disabled`), in a pipeline of its own if other topics are to keep theirs."
    )

    source: TopicPartition
    offset: int
    key: str

    def found(self) -> str:
        return (
            f"the record at {self.source} offset {self.offset} has a header whose key is not UTF-8 ({self.key}): the "
            "client can neither read nor write it"
        )

    def to_do(self) -> str:
        return (
            f"To copy {self.source.topic} without headers: features.headerReplication: disabled, in a pipeline of its "
            "own if other topics are to keep theirs. All before the record is copied; to go on behind it: "
            f"{set_command(*self.source, self.offset + 1)}"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, offset=17, key=repr(b"caf\xe9"))


@dataclass(frozen=True)
class RecordRefused(StopReason, code="record-refused"):
    """The target refuses a record.

    Attributes:
        source: The source partition.
        offset: Source offset of the record.
        size: Bytes of its key and value.
        target_topic: Where it was to go.
        words: What the target said.
    """

    title = "the target refuses a record"
    meaning = "Most often it is larger than the target topic takes. All before it is copied, and nothing was skipped."
    advice = "Raise `max.message.bytes` of the target topic and start again; copying goes on from that record."

    source: TopicPartition
    offset: int
    size: int
    target_topic: str
    words: str

    def found(self) -> str:
        return (
            f"the target refuses the record at {self.source} offset {self.offset} ({self.size} bytes of key and value) "
            f"for topic {self.target_topic}: {self.words}"
        )

    def to_do(self) -> str:
        return (
            f"If it is too large, raise max.message.bytes of {self.target_topic}; nothing was skipped, copying goes on "
            "from this record"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, 7, 50_003, _COPY.topic, "Broker: Message size too large")


@dataclass(frozen=True)
class TransformFailed(StopReason, code="transform-failed"):
    """A rule of `transform` fails for a record.

    Attributes:
        source: The source partition.
        offset: Of the record.
        rule: Name of the rule: its place in the pipeline file.
        words: What failed.
    """

    title = "a rule of `transform` fails for a record"
    meaning = (
        "The rule names a field of a key or value that is not JSON, or the function of the rule has raised an error. "
        "All before the record is copied."
    )
    advice = (
        "Correct the rule or its function and start again: copying goes on from that record. `onError` of the rule "
        "says what to do about such records from now on. The next offset goes on behind this one, without it."
    )

    source: TopicPartition
    offset: int
    rule: str
    words: str

    def found(self) -> str:
        return f"{self.rule} fails for the record at {self.source} offset {self.offset}: {self.words}"

    def to_do(self) -> str:
        return (
            f"Correct {self.rule} in the pipeline file, or its function, or give it an onError (deadLetter, drop), and "
            "start again. All before the record is copied; to go on behind it: "
            f"{set_command(*self.source, self.offset + 1)}"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, 42, "transform[0]", "KeyError: 'country'")


# -- schema registries ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SchemaNotOnSource(StopReason, code="schema-not-found"):
    """The source's registry does not have the schema of a record.

    Attributes:
        source: The source partition.
        offset: Of the record.
        facet: `key` or `value`.
        schema_id: The id that it has before its payload.
        words: What the registry said.
    """

    title = "the source's schema registry does not have the schema of a record"
    meaning = (
        "The record begins as if a schema registry's serializer had written it, and nobody knows the schema. It was "
        "deleted for good, the registry is another one, or the bytes are something else: a long integer as a key."
    )
    advice = (
        "If the topic's keys, or values, have no schemas: a rule in `schemaMapping.topics` says so, for example "
        "`{pattern: orders, key: disabled, value: enabled}`. Else bring the schema back; copying goes on from that "
        "record."
    )

    source: TopicPartition
    offset: int
    facet: str
    schema_id: int
    words: str

    def found(self) -> str:
        return (
            f"the {self.facet} of the record at {self.source} offset {self.offset} has schema id {self.schema_id}, "
            f"which the source's registry does not know ({self.words})"
        )

    def to_do(self) -> str:
        return (
            f"If the {self.facet}s of {self.source.topic} are not written with a schema registry, say so in "
            f"schemaMapping.topics: {{pattern: {self.source.topic}, {self.facet}: disabled}}; nothing was skipped, "
            "copying goes on from this record"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, 42, "value", 7, "Schema 7 not found (error code 40403)")


@dataclass(frozen=True)
class RegistryLoginRefused(StopReason, code="registry-login-refused"):
    """A schema registry does not let the pipeline in.

    Attributes:
        source: The source partition.
        offset: Of the record whose schema was asked for.
        registry: Names the registry, with its address.
        words: What it said.
    """

    title = "a schema registry does not let the pipeline in"
    meaning = (
        "It answers, but refuses the user, the password, the token or the certificate; or its own certificate is not "
        "trusted. That does not pass by itself, so it is not tried again and again, which could lock the user out. All "
        "before the record is copied, and nothing was skipped."
    )
    advice = (
        "`k2k validate --connect` tells whether it is put right; then start again. Copying goes on from that record."
    )

    source: TopicPartition
    offset: int
    registry: str
    words: str

    def found(self) -> str:
        return (
            f"{self.registry}, asked for the schema of the record at {self.source} offset {self.offset}, {self.words}"
        )

    def to_do(self) -> str:
        return "Correct registry.config of that cluster in the pipeline file, and start again"

    @classmethod
    def example(cls) -> Self:
        words = "refuses the login: 401 Unauthorized"
        return cls(_ORDERS, 42, "the target's schema registry at https://registry.example.com", words)


@dataclass(frozen=True)
class SchemaOfOtherTopic(StopReason, code="schema-of-other-topic"):
    """The schema of a record is registered only for other topics.

    Attributes:
        source: The source partition.
        offset: Of the record.
        facet: `key` or `value`.
        schema_id: The id that it has before its payload.
        subjects: Where the schema is registered.
    """

    title = "the schema of a record is registered for other topics only"
    meaning = (
        "The bytes may be something else that begins like a schema id: a long integer as a key. With another id "
        "it would be another number, so nothing is guessed."
    )
    advice = "A rule in `schemaMapping.topics` that names the topic says what they are, `enabled` or `disabled`."

    source: TopicPartition
    offset: int
    facet: str
    schema_id: int
    subjects: str

    def found(self) -> str:
        return (
            f"the {self.facet} of the record at {self.source} offset {self.offset} seems to have schema id "
            f"{self.schema_id}, which the source's registry has for other topics only ({self.subjects})"
        )

    def to_do(self) -> str:
        return (
            f"Say in schemaMapping.topics whether the {self.facet}s of {self.source.topic} are written with a schema "
            f"registry: {{pattern: {self.source.topic}, {self.facet}: enabled}} or disabled; nothing was skipped, "
            "copying goes on from this record"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, 42, "key", 1, "payments-value")


@dataclass(frozen=True)
class SchemaRefusedByTarget(StopReason, code="schema-refused"):
    """The target's registry does not take the schema of a record.

    Attributes:
        source: The source partition.
        offset: Of the record.
        facet: `key` or `value`.
        schema_id: The id of its schema on the source.
        subject: Where it was to be registered.
        words: What the registry said.
    """

    title = "the target's schema registry does not take a schema"
    meaning = (
        "Most often it is not compatible with what the subject holds there already, or the principal may not register "
        "schemas. All before the record is copied, and nothing was skipped."
    )
    advice = "Register it by hand, or change the compatibility of the subject, and start again."

    source: TopicPartition
    offset: int
    facet: str
    schema_id: int
    subject: str
    words: str

    def found(self) -> str:
        return (
            f"the target's registry does not take schema {self.schema_id} of the {self.facet} of the record at "
            f"{self.source} offset {self.offset} under subject {self.subject}: {self.words}"
        )

    def to_do(self) -> str:
        return (
            f"Change the compatibility of subject {self.subject} on the target, or register the schema by hand; "
            "nothing was skipped, copying goes on from this record"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, 42, "value", 7, "copy.orders-value", "Schema being registered is incompatible (409)")


# -- the target is not what it was ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TargetDeleted(StopReason, code="target-deleted"):
    """The target topic does not exist.

    Attributes:
        topic: The source topic.
        target: The target topic.
        position: Up to where the partition was copied; None while it was copied.
    """

    title = "the target topic was deleted"
    meaning = "What was copied is gone. The next start creates the topic anew, and then stops with `target-recreated`."
    advice = "`earliest` copies everything again; `current` goes on into the new topic without what is gone."

    topic: str
    target: str
    position: int | None = None

    def found(self) -> str:
        if self.position is None:
            return f"the target topic {self.target} was deleted while it was copied"
        return f"the target topic {self.target} was deleted, with all that was copied before {self.position}"

    def to_do(self) -> str:
        return _copy_into_the_new_topic(self.topic)

    @classmethod
    def example(cls) -> Self:
        return cls("orders", _COPY.topic, position=3)


@dataclass(frozen=True)
class TargetRecreated(StopReason, code="target-recreated"):
    """Another target topic has the name now.

    Attributes:
        topic: The source topic.
        target: The target topic.
        expected_id: Topic id of the one that was copied to.
        found_id: Topic id of the one that is there.
        position: Up to where the partition was copied; None while it was copied.
    """

    title = "the target topic was deleted and created anew"
    meaning = "The topic id tells it. What was copied into the old topic is gone."
    advice = "`earliest` copies everything again; `current` goes on into the new topic without what is gone."

    topic: str
    target: str
    expected_id: str
    found_id: str
    position: int | None = None

    def found(self) -> str:
        ids = f"(topic id {self.expected_id} is now {self.found_id})"
        if self.position is None:
            return (
                f"the target topic {self.target} was deleted and created anew while it was copied {ids}; what was in "
                "hand was not committed"
            )
        return (
            f"the target topic {self.target} was deleted and created anew {ids}, so what was copied before "
            f"{self.position} is gone"
        )

    def to_do(self) -> str:
        return _copy_into_the_new_topic(self.topic)

    @classmethod
    def example(cls) -> Self:
        return cls("orders", _COPY.topic, "hPy2RAetRp2kJHbykQF9XQ", "L8NZy89VRJ+4Hjn/bZudQg", position=3)


@dataclass(frozen=True)
class TargetTruncated(StopReason, code="target-truncated"):
    """The target partition ends before the last record that was copied into it.

    Attributes:
        source: The source partition.
        target: The target partition.
        expected_offset: Target offset that the next copy should have got.
        found_offset: Target offset that the next copy got.
    """

    title = "the target was truncated: copies in it are lost"
    meaning = "The target lost records that were committed, for example by an unclean leader election."
    advice = (
        "An earlier offset copies again from there; `current` goes on without what is lost. "
        "`k2k-tool translate -f FILE --reverse` tells which source offset a target offset was copied from."
    )

    source: TopicPartition
    target: TopicPartition
    expected_offset: int
    found_offset: int

    def found(self) -> str:
        return (
            f"{self.target} went back from offset {self.expected_offset} to {self.found_offset}: it was truncated, and "
            "copies in it are lost"
        )

    def to_do(self) -> str:
        again = set_command(*self.source, "OFFSET", "--accept-foreign-records")
        on = set_command(*self.source, "current", "--accept-foreign-records")
        return f"To copy from an earlier offset again: {again}; to go on: {on}"

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, _COPY, expected_offset=10, found_offset=4)


@dataclass(frozen=True)
class ForeignRecords(StopReason, code="foreign-records"):
    """Somebody else wrote to the target partition.

    Attributes:
        source: The source partition.
        target: The target partition.
        count: How many records.
        start: Target offset of the first.
        end: Target offset after the last.
    """

    title = "others wrote to the target partition"
    meaning = (
        "Or a run at least once was killed before it committed what it had written, and an exactly-once one goes on."
    )
    advice = "The command accepts what is there now; what others write later stops the topic again."

    source: TopicPartition
    target: TopicPartition
    count: int
    start: int
    end: int

    def found(self) -> str:
        were, are = ("was", "is a copy") if self.count == 1 else ("were", "are copies")
        return (
            f"{plural(self.count, 'record')} at {self.target} offsets {self.start} to {self.end - 1} {were} not "
            f"written by this pipeline, or {are} that a run at least once did not live to commit"
        )

    def to_do(self) -> str:
        accept = set_command(*self.source, "current", "--accept-foreign-records")
        return (
            f"Stop the other writer, if there is one, and accept them: {accept}; or set errorHandling.onForeignWriter: "
            "ignore to go on beside that writer"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, _COPY, count=2, start=3, end=5)


@dataclass(frozen=True)
class OpenTransaction(StopReason, code="open-transaction"):
    """A transaction in the target partition does not end: what is copied now could become a part of it.

    Attributes:
        source: The source partition.
        target: The target partition.
        start: Target offset of the transaction's first record.
        end: The high watermark.
        target_end: Up to where the position counts records as copied; None if that is not known.
        seconds: How long it has been waited for.
    """

    title = "a transaction in the target partition does not end"
    meaning = (
        "It is somebody else's, or it hangs: a broker that restarts can lose the marker that ends it. Where others may "
        "write too (`errorHandling.onForeignWriter: ignore`, or several partitions that feed one), it is only named in "
        "the log."
    )
    advice = (
        "`abort` ends it as aborted, after `find-hanging` has shown that it hangs; then start again. If the position "
        "counted its records as copied, the message names a `k2k-tool set` too, which copies them again."
    )

    source: TopicPartition
    target: TopicPartition
    start: int
    end: int
    target_end: int | None
    seconds: float

    def found(self) -> str:
        return open_transaction_found(self.target, self.start, self.end, self.seconds)

    def to_do(self) -> str:
        end_it = open_transaction_to_do(self.target, self.start)
        if self.target_end is None or self.target_end <= self.start:
            return f"{end_it}, and start again: its records do not count as copied"
        topic, partition = self.target
        return (
            f"{end_it}. The position counts its records as copied: copy them again then with "
            f"{set_command(*self.source, 'OFFSET')}, with the offset that k2k-tool translate -f FILE --reverse --topic "
            f"{topic} --partition {partition} --offset {self.start} tells"
        )

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, _COPY, start=40, end=55, target_end=None, seconds=70.0)


def open_transaction_found(target: TopicPartition, start: int, end: int, seconds: float) -> str:
    """Describes an open transaction in a target partition that does not end, whether it stops the partition or not."""
    return (
        f"a transaction has been open at {target} offset {start} for more than {seconds:.0f} s: readers of committed "
        f"records see none of the {end - start} offsets from there on"
    )


def open_transaction_to_do(target: TopicPartition, start: int) -> str:
    """The command that ends such a transaction."""
    return (
        "It is somebody else's, or it hangs: a broker that restarts can lose the marker that ends it. Look with "
        "kafka-transactions.sh find-hanging; if it hangs, end it with kafka-transactions.sh abort --topic "
        f"{target.topic} --partition {target.partition} --start-offset {start}"
    )


@dataclass(frozen=True)
class TargetWriteDenied(StopReason, code="target-write-denied"):
    """The principal may not write the target topic any more.

    Attributes:
        cluster: The cluster, in words.
        principal: The principal, in words.
        topic: The target topic.
    """

    title = "the target topic may not be written any more"
    meaning = "The principal has lost Write on the topic."
    advice = "Grant Write on it again (`k2k acls -f FILE`); the next start copies on."

    cluster: str
    principal: str
    topic: str

    def found(self) -> str:
        return f"the {self.cluster} does not allow {self.principal} to Write the topic {self.topic} any more"

    def to_do(self) -> str:
        return f"{ACLS_HINT}. Nothing was skipped, the next start copies on from here"

    @classmethod
    def example(cls) -> Self:
        return cls("target cluster at kafka-b:9092", "User:replicator", _COPY.topic)


@dataclass(frozen=True)
class NoTargetTopic(StopReason, code="no-target-topic"):
    """The routing names no target topic that can be used.

    Attributes:
        words: Why not.
    """

    title = "the routing names no target for the topic"
    meaning = "`staticMapping` has no entry for the topic, or the name that the routing makes is no legal topic name."
    advice = "Add an entry to `replication.sink.topic.staticMapping`, or select fewer topics."

    words: str

    def found(self) -> str:
        return self.words

    def to_do(self) -> str:
        return ""

    @classmethod
    def example(cls) -> Self:
        return cls(
            "replication.sink.topic.staticMapping has no entry for the selected topic 'orders'; add one, or select "
            "fewer topics"
        )


# -- the position is not known --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PositionsLost(StopReason, code="positions-lost"):
    """No position is known, and the commit topic has lost records.

    Attributes:
        source: The source partition.
        commit_topic: The commit topic.
    """

    title = "positions were lost"
    meaning = "The commit topic has lost records to retention, so the partition may have been copied already."
    advice = "Give the commit topic `cleanup.policy=compact`. The offset in the command is the next one to copy."

    source: TopicPartition
    commit_topic: str

    def found(self) -> str:
        return (
            f"no position is known, and {self.commit_topic} has lost records to retention, so it may have been copied "
            "already"
        )

    def to_do(self) -> str:
        return f"Give that topic cleanup.policy=compact, and say where to go on: {set_command(*self.source, 'OFFSET')}"

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, "__k2k_consumer-offsets")


@dataclass(frozen=True)
class PositionUnreadable(StopReason, code="position-unreadable"):
    """The newest commit record cannot be decoded.

    Attributes:
        source: The source partition.
        words: Where it lies, and what is wrong with it.
    """

    title = "a commit record cannot be read"
    meaning = "Somebody else wrote into the commit topic, or a newer release did."
    advice = (
        "The offset in the command is the next one to copy. Until the position is set, "
        "`errorHandling.onControlMessageDeserializationError: ignore` is needed, by the command too; the other "
        "partitions go on meanwhile."
    )

    source: TopicPartition
    words: str

    def found(self) -> str:
        return self.words

    def to_do(self) -> str:
        return f"To go on without it: {set_command(*self.source, 'OFFSET')}"

    @classmethod
    def example(cls) -> Self:
        return cls(_ORDERS, "__k2k_consumer-offsets-3@17: is not JSON (Expecting value: line 1 column 1 (char 0))")


@dataclass(frozen=True)
class Unclassified(StopReason, code="unclassified"):
    """A reason whose code this release does not know; it has only the text.

    Attributes:
        text: The text.
        noted_code: The code beside it, which this release does not know.
    """

    title = "a reason that another release noted"
    meaning = "Older releases noted no code. One that a newer release noted is shown with the code of that release."
    advice = "The message says what to do."

    text: str
    noted_code: str | None = None

    @property
    def code(self) -> str:
        return self.noted_code or super().code

    def found(self) -> str:
        return self.text

    def to_do(self) -> str:
        return ""

    @classmethod
    def example(cls) -> Self:
        return cls("the source topic orders is gone")


def _accept_the_new_topic(topic: str, where: str) -> str:
    return set_command(topic, None, where, "--accept-new-topic")


def _copy_the_new_topic(topic: str) -> str:
    again = _accept_the_new_topic(topic, "earliest")
    return f"To copy the new topic from its beginning, behind what was copied of the old one: {again}"


def _copy_into_the_new_topic(topic: str) -> str:
    again, on = (_accept_the_new_topic(topic, where) for where in ("earliest", "current"))
    return f"To copy everything again: {again}; to go on into the new topic: {on}"


ALL: Mapping[str, type[StopReason]] = KINDS
"""All kinds by code, in the order of this file."""
