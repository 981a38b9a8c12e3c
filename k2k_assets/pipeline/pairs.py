"""Several pairs of stages in one pipeline, as one selection and one routing.

A topic belongs to the one pair that selects it. A topic that two pairs select is refused when the file is loaded if it
is listed there. Else it has no target topic, and is not copied: which of its targets is meant cannot be told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from k2k_assets.core.errors import Refused
from k2k_assets.pipeline.sections.routing import Routing, SinkTopic
from k2k_assets.pipeline.sections.selection import TopicSelection


class Pair(NamedTuple):
    """A source and its sink."""

    selection: TopicSelection
    routing: Routing


class JoinedSelection(TopicSelection):
    """The topics of all pairs; `topic` is one regular expression for all of them, and `start` has no meaning here."""

    several: tuple[TopicSelection, ...]

    @property
    def parts(self) -> tuple[TopicSelection, ...]:
        """The selections of the pairs."""
        return self.several

    def matches(self, topic: str) -> bool:
        """Whether a pair selects a source topic."""
        return any(part.matches(topic) for part in self.parts)

    def with_internal_topics(self) -> TopicSelection:
        """The same selection, which includes internal topics."""
        return joined_selection([part.with_internal_topics() for part in self.parts])

    def identity(self) -> object:
        """Everything that decides which topics are selected, as JSON values."""
        return [part.identity() for part in self.parts]

    def describe(self) -> str:
        """A description of the selections, for messages."""
        return "; ".join(part.describe() for part in self.parts)


class JoinedRouting(Routing):
    """Routes each topic as its own pair does; `topic` and `partition` have no meaning here."""

    pairs: tuple[Pair, ...]

    def keeps_partition(self, source_topic: str) -> bool:
        """Whether records of a source topic keep their partition's number, as its pair says."""
        chosen = (pair.routing.partition for pair in self.pairs if pair.selection.matches(source_topic))
        return next(chosen, self.partition) == "source"

    @property
    def keeps_partitions(self) -> bool:
        """Whether the records of all pairs keep their partition's number."""
        return all(pair.routing.partition == "source" for pair in self.pairs)

    def target_topic(self, source_topic: str) -> str:
        """The target topic of a source topic.

        Raises:
            Refused: Its pair has no target topic for it, no pair selects it, or two do.
        """
        if twice := selected_twice([pair.selection for pair in self.pairs], source_topic):
            raise Refused(twice)
        for pair in self.pairs:
            if pair.selection.matches(source_topic):
                return pair.routing.target_topic(source_topic)
        raise Refused(f"no source of the pipeline selects the topic '{source_topic}'")


def joined_selection(parts: Sequence[TopicSelection]) -> TopicSelection:
    """One selection for all pairs; a list, if all pairs have lists."""
    if len(parts) == 1:
        return parts[0]
    listed = [part.literal for part in parts if part.literal is not None]
    if len(listed) == len(parts):
        return TopicSelection(topic=tuple(name for names in listed for name in names))
    topic = "|".join(f"(?:{part.pattern or _any_of(part.literal or ())})" for part in parts)
    # Each part was validated before, and `topic` is only for messages.
    return JoinedSelection.model_construct(topic=topic, several=tuple(parts))


def joined_routing(pairs: Sequence[Pair]) -> Routing:
    """The routing of the first pair that selects a topic."""
    if len(pairs) == 1:
        return pairs[0].routing
    return JoinedRouting(topic=SinkTopic(), partition=pairs[0].routing.partition, pairs=tuple(pairs))


def selected_twice(parts: Sequence[TopicSelection], topic: str) -> str:
    """Says that two pairs select a topic, which, and what to do; empty if at most one does.

    Args:
        parts: The selections of all pairs.
        topic: A source topic.
    """
    chosen = [f"replication[{2 * n}] ('{part.topic}')" for n, part in enumerate(parts) if part.matches(topic)]
    if len(chosen) < 2:
        return ""
    return (
        f"the topic '{topic}' is selected twice, by {' and '.join(chosen)}, and is not copied: leave it out of one of "
        "them ('replication[].source.exclude')"
    )


def _any_of(names: Sequence[str]) -> str:
    return "|".join(name.replace(".", r"\.") for name in names)
