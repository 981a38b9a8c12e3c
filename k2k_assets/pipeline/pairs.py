"""Several pairs of stages in one pipeline, as one selection and one routing.

A topic belongs to the one pair that selects it: one that two pairs select is refused: in the file where it is listed,
else when the topics of the source are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from k2k_assets.core.errors import Refused
from k2k_assets.pipeline.routing import Routing, SinkTopic
from k2k_assets.pipeline.selection import TopicSelection
from k2k_assets.pipeline.start import Start


class Pair(NamedTuple):
    """What is read, and where it is written."""

    selection: TopicSelection
    routing: Routing


class JoinedSelection(TopicSelection):
    """The topics of all pairs; `topic` is one regular expression for all of them."""

    several: tuple[TopicSelection, ...]

    @property
    def parts(self) -> tuple[TopicSelection, ...]:
        """The selections of the pairs."""
        return self.several

    def matches(self, topic: str) -> bool:
        """Whether a pair selects a source topic."""
        return any(part.matches(topic) for part in self.parts)

    def with_internal_topics(self) -> TopicSelection:
        """The same, with topics of bookkeeping too."""
        return joined_selection([part.with_internal_topics() for part in self.parts])

    def identity(self) -> object:
        """What decides which topics are selected, as JSON has it."""
        return [part.identity() for part in self.parts]

    def describe(self) -> str:
        """The selections in words, for messages."""
        return "; ".join(part.describe() for part in self.parts)


class JoinedRouting(Routing):
    """The routing of each topic's own pair; `topic` has no meaning here."""

    pairs: tuple[Pair, ...]

    def target_topic(self, source_topic: str) -> str:
        """The target topic of a source topic.

        Raises:
            Refused: Its pair has none for it, or no pair selects it.
        """
        for pair in self.pairs:
            if pair.selection.matches(source_topic):
                return pair.routing.target_topic(source_topic)
        raise Refused(f"no source of the pipeline selects the topic '{source_topic}'")


def joined_selection(parts: Sequence[TopicSelection]) -> TopicSelection:
    """One selection of all; of lists alone it is a list."""
    if len(parts) == 1:
        return parts[0]
    start = _joined_start(parts)
    listed = [part.literal for part in parts if part.literal is not None]
    if len(listed) == len(parts):
        return TopicSelection(topic=tuple(name for names in listed for name in names), start=start)
    topic = "|".join(f"(?:{part.pattern or _any_of(part.literal or ())})" for part in parts)
    # Not validated once more: each part was, and `topic` is for messages alone.
    return JoinedSelection.model_construct(topic=topic, start=start, several=tuple(parts))


def joined_routing(pairs: Sequence[Pair]) -> Routing:
    """One routing for all."""
    if len(pairs) == 1:
        return pairs[0].routing
    return JoinedRouting(topic=SinkTopic(), partition=pairs[0].routing.partition, pairs=tuple(pairs))


def _any_of(names: Sequence[str]) -> str:
    return "|".join(name.replace(".", r"\.") for name in names)


def _joined_start(parts: Sequence[TopicSelection]) -> Start | None:
    """What they all say; offsets are put together. `checks` refuses what is neither."""
    offsets = [part.start for part in parts if isinstance(part.start, dict)]
    if offsets:
        return {topic: of_topic for start in offsets for topic, of_topic in start.items()}
    return parts[0].start
