"""The headers that a copy must have, known from its source record and from the settings of the copy. Pure.

They are made from the source record one by one, and not by the stages that made those of the copy: so a header that a
stage got wrong is found.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.kafka.messages import Header
from k2k_assets.pipeline.sections.added_headers import AddedHeader, AddedHeaders


class ClusterIds(NamedTuple):
    """The ids of both clusters."""

    source: str
    target: str

    @classmethod
    def of(cls, source: Cluster, target: Cluster) -> ClusterIds:
        """Asks both clusters.

        Raises:
            ClusterUnreachable: A cluster does not answer.
        """
        return cls(source.cluster_id(), target.cluster_id())


class ExpectedHeaders(NamedTuple):
    """What the headers of copies are made of.

    Attributes:
        own: Whether the source record's headers come first.
        added: The headers behind those.
        carried: Name of those headers of the source record that come first, if not all do; empty if none do.
        changes: `ChangeRules.id` of the rules that change the source record's headers before; empty if there are none.
    """

    own: bool
    added: AddedHeaders
    carried: str = ""
    changes: str = ""

    @property
    def word(self) -> str:
        """As one word, for columns."""
        return json.dumps(self)

    @classmethod
    def parse(cls, word: str) -> ExpectedHeaders:
        """Reads `word`."""
        own, added, carried, changes = json.loads(word)
        return cls(own, tuple(AddedHeader(*each) for each in added), carried, changes)

    def of(self, topic: str, partition: int, offset: int, own: Iterable[Header]) -> list[Header]:
        """The headers of one copy.

        Args:
            topic: Source topic.
            partition: Source partition.
            offset: Source offset.
            own: The headers of the source record, changed already where `changes` says so.
        """
        kept = [header for header in own if self.own or header[0] == self.carried]
        return [*kept, *((header.name, header.value(topic, partition, offset)) for header in self.added)]


def expected_headers(settings: CopySettings, clusters: ClusterIds, changes: str = "") -> ExpectedHeaders | None:
    """The headers of copies that were made under some settings; None if none were added or changed.

    Args:
        settings: The settings.
        clusters: Source and target.
        changes: `ChangeRules.id` of the rules for the topic.
    """
    marker = settings.marker
    added = ((marker.of_copies(clusters.source),) if marker else ()) + settings.added
    if not added and not changes:
        return None
    return ExpectedHeaders(settings.headers, added, marker.header if marker else "", changes)


def header_words(words: Iterable[str]) -> dict[str, ExpectedHeaders]:
    """The different words, with what they stand for; without that of copies with the headers of their records."""
    return {word: ExpectedHeaders.parse(word) for word in sorted({word for word in words if word})}
