"""Cuts stretches into pieces that were copied under the same settings and without a break. Pure.

```
  stretch         100 ─────────────────────────────────── 200
  settings        100 ── a ── 140   140 ───── b ───────── 200
  set by hand                                  170
  pieces          [100, 140) a      [140, 170) b  [170, 200) b
```

Where a position was set by hand, foreign records may lie between the copies on the target: so a piece ends there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from k2k_assets.control.copy_settings import CopySettings, Isolation
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.index.portions import SettingsRange
from k2k_assets.pipeline.sections.schema_mapping import facets_word
from k2k_assets.verification.content.expected_changes import ChangeRules, KnownChanges, View
from k2k_assets.verification.content.expected_drops import expected_drops
from k2k_assets.verification.content.expected_headers import ClusterIds, expected_headers
from k2k_assets.verification.content.sampling import Stretch


class ComparedPiece(NamedTuple):
    """Source offsets that were copied under the same settings: start inclusive, end exclusive.

    Attributes:
        topic: Source topic.
        partition: Source partition.
        start: First offset.
        end: Offset after the last one.
        isolation: `isolation.level` of the copy.
        headers: Whether headers are compared: they were copied, or some were added.
        timestamps: Whether timestamps were copied.
        noted: Whether these settings were noted; if not, they are today's, and the copy may have had others.
        alone: Whether only copies, each once, can lie between the copies (`CopySettings.alone`).
        schemas: How content is compared, as `View.word`: through mapped schema ids, and through the rules of
            `transform`.
        added: What the headers of copies are made of, as `ExpectedHeaders.word`; empty if none were added.
        drops: By what records were left out, as `ExpectedDrops.word`; empty if all were copied.
        transform: The rules of `transform` for the topic, as `CopySettings.transform`; empty if there were none.
    """

    topic: str
    partition: int
    start: int
    end: int
    isolation: Isolation
    headers: bool
    timestamps: bool
    noted: bool
    alone: bool
    schemas: str = ""
    added: str = ""
    drops: str = ""
    transform: str = ""


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """The copy of one source partition.

    Attributes:
        under: Ranges with the fingerprint of their settings, in order.
        set_at: Offsets to which the position was set by hand, rising.
        one_to_one: Whether it feeds one target partition in each topic, which no other source partition feeds.
    """

    under: Sequence[SettingsRange] = ()
    set_at: Sequence[int] = ()
    one_to_one: bool = False


@dataclass(slots=True)
class Pieces:
    """The pieces of stretches.

    Attributes:
        found: The pieces, in the order of the stretches.
        unknown: What is left out, because the settings behind its fingerprint are not known, or name a function whose
            code is another one now.
    """

    found: list[ComparedPiece] = field(default_factory=list)
    unknown: list[Stretch] = field(default_factory=list)


def pieces(
    stretches: Iterable[Stretch],
    copied: Mapping[TopicPartition, CopiedRange],
    known: Mapping[str, CopySettings],
    today: CopySettings,
    clusters: ClusterIds,
    folders: Sequence[str] = (),
) -> Pieces:
    """Cuts stretches into pieces.

    Args:
        stretches: The stretches to compare.
        copied: The copies of their partitions.
        known: The settings behind the fingerprints.
        today: Today's settings, for copies by releases that noted none.
        clusters: Source and target.
        folders: Where modules of functions may lie.
    """
    known_changes = KnownChanges()
    # A range that would be read uncommitted now may have been copied committed: aborted records would seem missing.
    assumed = today if today.isolation == "read_committed" else None
    result = Pieces()
    for stretch in stretches:
        of_partition = copied.get(TopicPartition(stretch.topic, stretch.partition), CopiedRange())
        for start, end, fingerprint in _cut(stretch, of_partition):
            settings = known.get(fingerprint) if fingerprint else assumed
            rules = known_changes.of(ChangeRules(settings.transform, folders), stretch.topic) if settings else None
            if settings is None or rules is None:
                result.unknown.append(stretch._replace(start=start, end=end))
                continue
            expected = expected_headers(settings, clusters, rules.id)
            drops = expected_drops(settings, clusters, rules.id)
            result.found.append(
                ComparedPiece(
                    stretch.topic,
                    stretch.partition,
                    start,
                    end,
                    isolation=settings.isolation,
                    headers=settings.headers or bool(expected),
                    timestamps=settings.timestamps,
                    noted=bool(fingerprint),
                    alone=bool(fingerprint) and settings.alone and of_partition.one_to_one,
                    schemas=View(facets_word(settings.facets(stretch.topic)), rules.id).word,
                    added=expected.word if expected else "",
                    drops=drops.word if drops else "",
                    transform=rules.text,
                )
            )
    return result


def _cut(stretch: Stretch, copied: CopiedRange) -> list[SettingsRange]:
    """Cuts a stretch where the settings change; ranges without noted settings have an empty fingerprint."""
    bounds = {stretch.start, stretch.end, *(at for at in copied.set_at if stretch.start < at < stretch.end)}
    within = [under for under in copied.under if under.end > stretch.start and under.start < stretch.end]
    for under in within:
        bounds |= {max(under.start, stretch.start), min(under.end, stretch.end)}
    return [
        SettingsRange(start, end, next((under.settings for under in within if under.start <= start < under.end), ""))
        for start, end in pairwise(sorted(bounds))
    ]
