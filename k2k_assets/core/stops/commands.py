"""The `k2k-tool` commands that the texts of stop reasons name. `FILE` in a command is the pipeline file."""

from __future__ import annotations

from k2k_assets.core.topic_partition import TopicPartition


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


def accept_the_new_topic(topic: str, where: str) -> str:
    return set_command(topic, None, where, "--accept-new-topic")


def copy_the_new_topic(topic: str) -> str:
    again = accept_the_new_topic(topic, "earliest")
    return f"To copy the new topic from its beginning, behind what was copied of the old one: {again}"


def copy_into_the_new_topic(topic: str) -> str:
    again, on = (accept_the_new_topic(topic, where) for where in ("earliest", "current"))
    return f"To copy everything again: {again}; to go on into the new topic: {on}"


def find_hanging_command(partition: TopicPartition) -> str:
    """The command that shows transactions of a partition that hang; by its defaults not before 15 minutes."""
    where = f"--topic {partition.topic} --partition {partition.partition}"
    return f"kafka-transactions.sh find-hanging {where} --max-transaction-timeout 1"


def abort_command(partition: TopicPartition, start: int) -> str:
    """The command that ends a transaction that hangs as aborted.

    Args:
        partition: Where its records are.
        start: Offset of the first one.
    """
    where = f"--topic {partition.topic} --partition {partition.partition}"
    return f"kafka-transactions.sh abort {where} --start-offset {start}"
