"""Cuts what is looked at into pieces that were copied under the same settings, without a break: pure.

```
  stretch         100 ─────────────────────────────────── 200
  settings        100 ── a ── 140   140 ───── b ───────── 200
  set by hand                                  170
  pieces          [100, 140) a      [140, 170) b  [170, 200) b
```

Where a position was set by hand, records of others may lie on the target in between: a piece ends there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from k2k_assets.control.copy_settings import CopySettings, Isolation
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.mapping.index.portions import SettingsRange
from k2k_assets.pipeline.schema_mapping import facets_word
from k2k_assets.verification.sampling import Stretch


class ComparedPiece(NamedTuple):
    """Source offsets that were copied under the same settings: start inclusive, end exclusive.

    Attributes:
        topic: Source topic.
        partition: Source partition.
        start: First offset.
        end: Offset after the last one.
        isolation: `isolation.level` under which they were read.
        headers: Whether headers were copied.
        timestamps: Whether timestamps were.
        noted: Whether these settings were noted; else they are those of today, and were perhaps others.
        alone: Whether nobody else may have written between the copies.
        schemas: The facets whose schema ids were mapped, as `facets_word`.
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


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """How one source partition was copied.

    Attributes:
        under: Ranges with the fingerprint of their settings, in order.
        set_at: Offsets at which the position was set by hand, rising.
        one_to_one: Whether it feeds one target partition in each topic, which nothing else feeds.
    """

    under: Sequence[SettingsRange] = ()
    set_at: Sequence[int] = ()
    one_to_one: bool = False


@dataclass(slots=True)
class Pieces:
    """The pieces of stretches.

    Attributes:
        found: In the order of the stretches.
        unknown: Offsets that are left out, for nobody knows what their settings stand for.
    """

    found: list[ComparedPiece] = field(default_factory=list)
    unknown: int = 0


def pieces(
    stretches: Iterable[Stretch],
    copied: Mapping[TopicPartition, CopiedRange],
    known: Mapping[str, CopySettings],
    today: CopySettings,
) -> Pieces:
    """Cuts stretches.

    Args:
        stretches: What is looked at.
        copied: How their partitions were copied.
        known: What the fingerprints stand for.
        today: The settings of today, for what was copied by releases that noted none.
    """
    # What is read uncommitted now was perhaps read committed then: aborted records would look like missing ones.
    assumed = today if today.isolation == "read_committed" else None
    result = Pieces()
    for stretch in stretches:
        of_partition = copied.get(TopicPartition(stretch.topic, stretch.partition), CopiedRange())
        for start, end, fingerprint in _cut(stretch, of_partition):
            settings = known.get(fingerprint) if fingerprint else assumed
            if settings is None:
                result.unknown += end - start
                continue
            alone = bool(fingerprint) and settings.alone and of_partition.one_to_one
            facets = facets_word(settings.facets(stretch.topic))
            what = settings.isolation, settings.headers, settings.timestamps, bool(fingerprint), alone, facets
            result.found.append(ComparedPiece(stretch.topic, stretch.partition, start, end, *what))
    return result


def _cut(stretch: Stretch, copied: CopiedRange) -> list[SettingsRange]:
    """All of a stretch, cut where the settings change; those that are not known are empty."""
    bounds = {stretch.start, stretch.end, *(at for at in copied.set_at if stretch.start < at < stretch.end)}
    within = [under for under in copied.under if under.end > stretch.start and under.start < stretch.end]
    for under in within:
        bounds |= {max(under.start, stretch.start), min(under.end, stretch.end)}
    return [
        SettingsRange(start, end, next((under.settings for under in within if under.start <= start < under.end), ""))
        for start, end in pairwise(sorted(bounds))
    ]
