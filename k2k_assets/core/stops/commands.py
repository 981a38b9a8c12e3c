"""The `k2k-tool` commands that the texts of stop reasons name. `FILE` in a command is the pipeline file."""

from __future__ import annotations


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
