"""In what the topics of the target differ from what they have to be like. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from k2k_assets.topics.wanted import MIN_ISR, NOT_MIRRORED, TargetTopic, TopicSettings

Kind = Literal["missing", "config", "only on the target", "min.insync.replicas", "partitions", "replication factor"]
"""`config` is one that the source topic or the pipeline file has; `only on the target` one that neither has."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference.

    Attributes:
        topic: Target topic.
        kind: Which kind it is of.
        what: Name of the config, or as `kind`.
        found: What the target has; None if it has nothing.
        wanted: What it has to have; None for the broker's default.
    """

    topic: str
    kind: Kind
    what: str
    found: str | None
    wanted: str | None

    def __str__(self) -> str:
        if self.kind == "missing":
            return f"{self.topic} is missing"
        found = "nothing" if self.found is None else self.found
        wanted = "the broker's default" if self.wanted is None else self.wanted
        return f"{self.topic}: {self.what} is {found}, and has to be {wanted}"


def differences(
    wanted: TargetTopic, found: TopicSettings | None, model: TopicSettings, excluded: Collection[str] = ()
) -> list[Difference]:
    """In what a target topic differs from what it has to be like.

    What counts is what is in force: a config that the brokers have by default already differs from nothing. More
    partitions and more replicas than the source has are no difference.

    Args:
        wanted: What it has to be like.
        found: What it is like; None if it does not exist.
        model: The source topic that it is like.
        excluded: Configs that are not looked at (`topicPropsExclusionList`), unless the pipeline file has them.
    """
    name = wanted.topic.name
    if found is None:
        return [Difference(name, "missing", "topic", None, "there")]
    return [
        *_of_configs(wanted, found),
        *_only_on_target(wanted, found, model, excluded),
        *_of_counts(wanted, found),
    ]


def _of_configs(wanted: TargetTopic, found: TopicSettings) -> Iterator[Difference]:
    for key, value in sorted(wanted.topic.config.items()):
        has = found.effective.get(key)
        if has != value:
            yield _config(wanted.topic.name, key, has, value, "config")


def _only_on_target(
    wanted: TargetTopic, found: TopicSettings, model: TopicSettings, excluded: Collection[str]
) -> Iterator[Difference]:
    left_alone = {*excluded, *wanted.left_out, *wanted.topic.config, *NOT_MIRRORED}
    for key, value in sorted(found.config.items()):
        if key not in left_alone and model.effective.get(key) != value:
            yield _config(wanted.topic.name, key, value, None, "only on the target")


def _config(topic: str, key: str, found: str | None, wanted: str | None, kind: Kind) -> Difference:
    return Difference(topic, "min.insync.replicas" if key == MIN_ISR else kind, key, found, wanted)


def _of_counts(wanted: TargetTopic, found: TopicSettings) -> Iterator[Difference]:
    topic = wanted.topic
    if topic.partitions and found.partitions < topic.partitions:
        yield Difference(topic.name, "partitions", "partitions", str(found.partitions), str(topic.partitions))
    asked = topic.replication or 0
    if found.replication != asked if "replication" in wanted.explicit else found.replication < asked:
        kind: Kind = "replication factor"
        yield Difference(topic.name, kind, kind, str(found.replication), str(asked))
