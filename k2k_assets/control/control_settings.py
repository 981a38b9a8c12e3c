"""Judges the settings of control topics. Pure.

Settings that lose control records by themselves in time, or that block all writes, are refused: nobody would see it
happen. Settings that lose them only when brokers fail, or that keep too much, cause a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_NEVER = "-1"
_MIN_ISR = "min.insync.replicas"
_LARGEST = "max.message.bytes"
# Batches of mapping records are of this size at most, and for transactions with many runs they are.
_BATCH_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one control topic.

    Attributes:
        name: Name of the topic.
        mapping: Whether it is the mapping topic, not the commit or assignment topic.
        config: All topic configs; for a topic that is to be created, the given ones.
        replication: Lowest replica count of its partitions; None if the brokers choose it.
        brokers: Number of brokers in the cluster.
        partitions: Its number of partitions (None while it does not exist), and the number that the pipeline file asks
            for (None if it asks for none).
    """

    name: str
    mapping: bool
    config: Mapping[str, str]
    replication: int | None = None
    brokers: int = 1
    partitions: tuple[int | None, int | None] = (None, None)


@dataclass(frozen=True, slots=True)
class Judged:
    """Objections to settings: each line names topic, setting, value, and the value needed."""

    refusals: list[str]
    warnings: list[str]


def judge(settings: Settings) -> Judged:
    """Judges the settings of a control topic."""
    cleaned = _cleaned_mappings(settings) if settings.mapping else _cleaned_positions(settings)
    kept = [*_short_memory(settings), *_short_records(settings)] if settings.mapping else _growth(settings)
    doubtful = [*kept, *_lost_with_brokers(settings), *_other_partitions(settings)]
    return Judged([*cleaned, *_never_writable(settings)], doubtful)


def _cleaned_positions(settings: Settings) -> Iterator[str]:
    policy = settings.config.get("cleanup.policy", "compact")
    bounds = _bounds(settings)
    if "delete" in policy and bounds:
        yield (
            f"'{settings.name}' has cleanup.policy={policy} and {bounds}: positions and claims get lost in time. Set "
            "cleanup.policy=compact"
        )


def _other_partitions(settings: Settings) -> Iterator[str]:
    has, asked = settings.partitions
    if has is not None and asked is not None and has != asked:
        yield (
            f"'{settings.name}' has partitions={has}, topicCreation.control asks for {asked}: a control topic that "
            "exists is not changed, and any number will do"
        )


def _growth(settings: Settings) -> Iterator[str]:
    policy = settings.config.get("cleanup.policy", "compact")
    if "compact" not in policy and not _bounds(settings):
        yield f"'{settings.name}' has cleanup.policy={policy}: it grows without end. Set cleanup.policy=compact"


def _cleaned_mappings(settings: Settings) -> Iterator[str]:
    policy = settings.config.get("cleanup.policy", "delete")
    if "compact" in policy:
        yield (
            f"'{settings.name}' has cleanup.policy={policy}: compaction removes mappings. Set cleanup.policy=delete "
            "and retention.ms=-1"
        )


def _short_memory(settings: Settings) -> Iterator[str]:
    if bounds := _bounds(settings):
        yield f"'{settings.name}' has {bounds}: mappings that are older get lost. Set it to -1 to keep them"


def _short_records(settings: Settings) -> Iterator[str]:
    value = settings.config.get(_LARGEST, "").strip()
    if value.isdecimal() and int(value) < _BATCH_BYTES:
        yield (
            f"'{settings.name}' has {_LARGEST}={value}: a transaction whose mapping record is longer is refused, each "
            f"time that it is tried. Set it to {_BATCH_BYTES} or more"
        )


def _bounds(settings: Settings) -> str:
    """The retention configs that are not unlimited, as text; empty if there are none."""
    found = {name: settings.config.get(name, _NEVER) for name in ("retention.ms", "retention.bytes")}
    return " and ".join(f"{name}={value}" for name, value in found.items() if value != _NEVER)


def _least_in_sync(settings: Settings) -> int:
    """`min.insync.replicas`; 1 if it is no number, which the target will refuse when it creates the topic."""
    value = settings.config.get(_MIN_ISR, "1").strip()
    return int(value) if value.isdecimal() else 1


def _never_writable(settings: Settings) -> Iterator[str]:
    least = _least_in_sync(settings)
    if settings.replication is not None and least > settings.replication:
        yield (
            f"'{settings.name}' has {_MIN_ISR}={least} and a replication factor of {settings.replication}: nothing can "
            f"be written to it. Set {_MIN_ISR} to {settings.replication} or less, or give it {least} replicas"
        )


def _lost_with_brokers(settings: Settings) -> Iterator[str]:
    replication, config = settings.replication, settings.config
    if replication is None:
        return
    if replication >= 3 and _least_in_sync(settings) < 2:
        yield (
            f"'{settings.name}' has {replication} replicas and {_MIN_ISR}={config.get(_MIN_ISR, 1)}: the loss of one "
            f"broker can lose what was acknowledged. Set {_MIN_ISR}=2"
        )
    if replication == 1 and settings.brokers > 1:
        yield (
            f"'{settings.name}' has a replication factor of 1 on {settings.brokers} brokers: it is lost with its "
            f"broker. Give it {min(3, settings.brokers)} replicas"
        )
    if replication > 1 and config.get("unclean.leader.election.enable") == "true":
        yield (
            f"'{settings.name}' has unclean.leader.election.enable=true: the loss of brokers can take back what was "
            "committed. Set it to false"
        )
