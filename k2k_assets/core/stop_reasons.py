"""Why a partition cannot be copied on, in words: what was found, the range, and the command that goes on. Pure.

`FILE` in a command is the pipeline file; what each command does is in `docs/stops.md`.
"""

from __future__ import annotations

from k2k_assets.core.topic_partition import TopicPartition


def command(topic: str, partition: int | None, where: object, *flags: str) -> str:
    """The `k2k-tool set` that overrides a position.

    Args:
        topic: Source topic.
        partition: Source partition; None: all of the topic.
        where: An offset, `earliest`, `latest` or `current`.
        flags: Further options.
    """
    which = "all" if partition is None else partition
    return " ".join(["k2k-tool set -f FILE -o", f"{topic}:{which}:{where}", *flags])


def deleted_range(tp: TopicPartition, position: int, log_start: int) -> str:
    """The source deleted records before they were copied."""
    return (
        f"records {position} to {log_start - 1} were deleted from the source before they were copied (retention, "
        f"or delete-records): it now starts at {log_start}. To go on without them: {command(*tp, 'earliest')}"
    )


def truncated(tp: TopicPartition, position: int, log_end: int) -> str:
    """The source ends before the position."""
    return (
        f"the source ends at {log_end}, before position {position}: its log was truncated, and what was copied from "
        f"there on no longer exists on the source. To go on with what is written from now on: "
        f"{command(*tp, 'latest')}; or give the offset from which the source holds other records than were copied"
    )


def diverged(tp: TopicPartition, position: int, epoch_end: int | None, words: str) -> str:
    """The source log was truncated below the position and has grown again."""
    if epoch_end is None:
        return (
            f"the source log was truncated below position {position} and has grown again ({words}): what is copied "
            f"is no longer what the source holds. To go on: {command(*tp, 'OFFSET')} with the offset at which it "
            "was cut off"
        )
    return (
        f"the source log was truncated at {epoch_end}, below position {position}, and has grown again (leader epoch): "
        f"records {epoch_end} to {position - 1} that were copied are no longer those of the source. To copy what is "
        f"there now, behind what was copied: {command(*tp, epoch_end)}; to go on without it: {command(*tp, position)}"
    )


def perhaps_aborted(tp: TopicPartition, at: int, position: int) -> str:
    """Read uncommitted now, the source has records before the position that may have been left out, or be new.

    Args:
        tp: The source partition.
        at: Offset of the first of them.
        position: Where copying goes on.
    """
    return (
        f"the records from {at} to {position - 1} of the source, before the position, are of a later leader epoch than "
        "what was copied last. Either they are aborted ones, left out while isolation.level was read_committed, or the "
        "source log was truncated there and has grown again; the source did not say in time which. To go on without "
        f"them: {command(*tp, position)}; to copy them: {command(*tp, at)}"
    )


def out_of_range(tp: TopicPartition, offset: int, words: str) -> str:
    """The source refuses the offset and does not say which range it holds."""
    return (
        f"the source no longer holds offset {offset} ({words}): records were deleted or the log was truncated before "
        f"they were copied. To go on at what it begins with now: {command(*tp, 'earliest')}"
    )


def source_gone(topic: str) -> str:
    """The source topic does not exist."""
    return (
        f"the source topic {topic} is gone. If it was deleted on purpose, take it out of the pipeline; if it is "
        f"created anew: {command(topic, None, 'earliest', '--accept-new-topic')}"
    )


def header_unreadable(tp: TopicPartition, offset: int, key: bytes) -> str:
    """A record has a header that the client cannot read.

    Args:
        tp: The source partition.
        offset: Of the record.
        key: Of the header.
    """
    return (
        f"the record at {tp} offset {offset} has a header whose key is not UTF-8 ({_shortened(key)}): the client can "
        f"neither read nor write it. To copy {tp.topic} without headers: features.headerReplication: disabled, in a "
        "pipeline of its own if other topics are to keep theirs. All before the record is copied; to go on behind it: "
        f"{command(*tp, offset + 1)}"
    )


def too_few_partitions(topic: str, partitions: int) -> str:
    """The source topic has fewer partitions than it had."""
    return (
        f"the source topic has only {partitions} partitions left: it was deleted and created anew. {new_source(topic)}"
    )


def source_created_anew(topic: str, expected: str, found: str, position: int | None) -> str:
    """Another source topic has the name now.

    Args:
        topic: Its name.
        expected: Id of the one that was copied.
        found: Id of the one that is there.
        position: Up to where this partition was copied; None if the other one did not have it.
    """
    other = "nothing of it is copied yet" if position is None else f"offsets before {position} mean other records"
    return (
        f"the source topic was deleted and created anew (topic id {expected} is now {found}), so {other}. "
        f"{new_source(topic)}"
    )


def target_deleted(topic: str, target: str, position: int) -> str:
    """The target topic does not exist."""
    return f"the target topic {target} was deleted, with all that was copied before {position}. {new_target(topic)}"


def target_created_anew(topic: str, target: str, expected: str, found: str, position: int) -> str:
    """Another target topic has the name now."""
    return (
        f"the target topic {target} was deleted and created anew (topic id {expected} is now {found}), so what was "
        f"copied before {position} is gone. {new_target(topic)}"
    )


def foreign_records(source: TopicPartition, target: TopicPartition, found: int, start: int, end: int) -> str:
    """Somebody else wrote to the target partition.

    Args:
        source: The source partition.
        target: The target partition.
        found: How many records.
        start: Target offset of the first.
        end: Target offset after the last.
    """
    accept = command(*source, "current", "--accept-foreign-records")
    return (
        f"{found} records at {target} offsets {start} to {end - 1} were not written by this pipeline, or are copies "
        "that a run at least once did not live to commit. Stop the other writer, if there is one, and accept them: "
        f"{accept}; or set errorHandling.onForeignWriter: ignore to go on beside that writer"
    )


def target_truncated(source: TopicPartition, target: TopicPartition, expected: int, found: int) -> str:
    """The target partition went back."""
    accept = command(*source, "current", "--accept-foreign-records")
    return (
        f"{target} went back from offset {expected} to {found}: it was truncated, and copies in it are lost. To copy "
        f"from an earlier offset again: {command(*source, 'OFFSET', '--accept-foreign-records')}; to go on: {accept}"
    )


def hangs(target: TopicPartition, at: int, end: int, seconds: float) -> str:
    """A transaction in a target partition does not end.

    Args:
        target: The target partition.
        at: Target offset of its first record.
        end: The high watermark.
        seconds: How long it has been waited for.
    """
    return (
        f"a transaction has been open at {target} offset {at} for more than {seconds:.0f} s: readers of committed "
        f"records see none of the {end - at} offsets from there on. It is somebody else's, or it hangs: a broker that "
        "restarts can lose the marker that ends it. Look with kafka-transactions.sh find-hanging; if it hangs, end it "
        f"with kafka-transactions.sh abort --topic {target.topic} --partition {target.partition} --start-offset {at}"
    )


def held(
    source: TopicPartition, target: TopicPartition, at: int, end: int, target_end: int | None, seconds: float
) -> str:
    """The same where nobody else may write: what is copied now could become a part of that transaction.

    Args:
        source: The source partition.
        target: The target partition.
        at: Target offset of the transaction's first record.
        end: The high watermark.
        target_end: Up to where the position counts records as copied; None if that is not known.
        seconds: How long it has been waited for.
    """
    words = hangs(target, at, end, seconds)
    if target_end is None or target_end <= at:
        return f"{words}, and start again: its records do not count as copied"
    return (
        f"{words}. The position counts its records as copied: copy them again then with {command(*source, 'OFFSET')}, "
        f"with the offset that k2k-tool translate -f FILE --reverse --topic {target.topic} --partition "
        f"{target.partition} --offset {at} tells"
    )


def positions_lost(tp: TopicPartition, commit_topic: str) -> str:
    """No position is known, and the commit topic has lost records."""
    return (
        f"no position is known, and {commit_topic} has lost records to retention, so it may have been copied already. "
        f"Give that topic cleanup.policy=compact, and say where to go on: {command(*tp, 'OFFSET')}"
    )


def position_unreadable(tp: TopicPartition, why: str) -> str:
    """The newest commit record cannot be decoded."""
    return f"{why}. To go on without it: {command(*tp, 'OFFSET')}"


def new_source(topic: str) -> str:
    """What to do about a source topic that was created anew."""
    again = command(topic, None, "earliest", "--accept-new-topic")
    return f"To copy the new topic from its beginning, behind what was copied of the old one: {again}"


def new_target(topic: str) -> str:
    """What to do about a target topic that was deleted or created anew."""
    again = command(topic, None, "earliest", "--accept-new-topic")
    return f"To copy everything again: {again}; to go on into the new topic: " + command(
        topic, None, "current", "--accept-new-topic"
    )


def _shortened(content: bytes, most: int = 40) -> str:
    return repr(content) if len(content) <= most else f"{content[:most]!r}... {len(content)} bytes"
