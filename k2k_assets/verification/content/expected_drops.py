"""Which records a pipeline must leave out, known from the source record and from the settings of the copy. Pure.

It is told from the record anew, and not by the stages: so a record that was left out although it should have been
copied is found, and so is one that was copied although it should have been left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.kafka.messages import Header
from k2k_assets.pipeline.sections.bidirectional import RULE, Marker
from k2k_assets.verification.content.expected_headers import ClusterIds


class ExpectedDrops(NamedTuple):
    """The rules by which records are left out.

    Attributes:
        header: Name of the header by which echoes are known; empty if there are none.
        value: Its value in echoes, as text.
        changes: `ChangeRules.id` of the rules of `transform`, which see what is no echo; empty if there are none.
    """

    header: str = ""
    value: str = ""
    changes: str = ""

    @property
    def word(self) -> str:
        """As one word, for columns."""
        return json.dumps(self)

    @classmethod
    def parse(cls, word: str) -> ExpectedDrops:
        """Reads `word`."""
        return cls(*json.loads(word))

    @classmethod
    def by(cls, marker: Marker, target_cluster: str, changes: str = "") -> ExpectedDrops:
        """The rules of a pipeline with a marker that copies to a cluster; `changes` as in `expected_drops`."""
        header, value = marker.of_echoes(target_cluster)
        return cls(header, value.decode(), changes)

    def rule_for(self, headers: Iterable[Header], changed_by: str | None = None) -> str | None:
        """Name of the rule that leaves out a record; None if it is copied.

        Args:
            headers: The headers of the record.
            changed_by: The rule of `transform` that would leave it out (`ChangedRecord.rule`).
        """
        return RULE if self.header and (self.header, self.value.encode()) in headers else changed_by


def expected_drops(settings: CopySettings, clusters: ClusterIds, changes: str = "") -> ExpectedDrops | None:
    """The rules that were in force under some settings; None if there were none.

    Args:
        settings: The settings.
        clusters: Source and target.
        changes: `ChangeRules.id` of the rules for the topic.
    """
    if settings.marker is None:
        return ExpectedDrops(changes=changes) if changes else None
    return ExpectedDrops.by(settings.marker, clusters.target, changes)


def drop_words(words: Iterable[str]) -> dict[str, ExpectedDrops]:
    """The different words, with what they stand for; without that of copies of all records."""
    return {word: ExpectedDrops.parse(word) for word in sorted({word for word in words if word})}
