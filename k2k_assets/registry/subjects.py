"""Under which subject a schema of the source is registered on the target: pure.

| strategy of the serializer | subject on the source | on the target |
| --- | --- | --- |
| TopicNameStrategy, the default | `orders-value` | `<target topic>-value` |
| TopicRecordNameStrategy | `orders-shop.Order` | `<target topic>-shop.Order` |
| RecordNameStrategy | `shop.Order` | the same |

A deserializer asks for an id, not for a subject: the subject decides only against which other schemas the target's
registry judges it to be compatible, and where producers of the target find it.
"""

from __future__ import annotations

from collections.abc import Sequence

from k2k_assets.pipeline.sections.schema_mapping import Facet
from k2k_assets.registry.schemas import SubjectVersion

_ENDINGS = ("-key", "-value")


def best_place(places: Sequence[SubjectVersion], topic: str, facet: Facet) -> SubjectVersion | None:
    """The subject of the source that a record's schema was most likely taken from; None if there is none.

    Args:
        places: Where the schema is registered.
        topic: The source topic.
        facet: The part of the record.
    """

    def rank(place: SubjectVersion) -> tuple[int, SubjectVersion]:
        if place.subject == f"{topic}-{facet}":
            return 0, place
        if is_of_other_topic(place.subject, topic):
            return 4, place
        if place.subject.endswith(_ENDINGS):
            return 3, place  # of the other facet
        return 1 if place.subject.startswith(f"{topic}-") else 2, place

    return min(places, key=rank, default=None)


def may_be_of(places: Sequence[SubjectVersion], topic: str, facet: Facet) -> bool:
    """Whether a schema may be one of a topic's keys, or values, though no rule says that they have schemas.

    A long integer begins as a schema id does, and is mostly a key: a subject like `shop.Order` proves nothing of keys.

    Args:
        places: Where the schema is registered.
        topic: The source topic.
        facet: The part of the record.
    """
    subjects = [place.subject for place in places]
    if f"{topic}-{facet}" in subjects:
        return True
    return facet == "value" and (not subjects or not all(subject.endswith(_ENDINGS) for subject in subjects))


def is_of_other_topic(subject: str, topic: str) -> bool:
    """Whether TopicNameStrategy has given a subject its name, for another topic."""
    return subject.endswith(_ENDINGS) and subject not in {f"{topic}{ending}" for ending in _ENDINGS}


def target_subject(place: SubjectVersion | None, source_topic: str, target_topic: str, facet: Facet) -> str:
    """The subject on the target.

    Args:
        place: As `best_place`.
        source_topic: The source topic.
        target_topic: Where its records go.
        facet: The part of the record.
    """
    if place is None or is_of_other_topic(place.subject, source_topic):
        return f"{target_topic}-{facet}"
    start = f"{source_topic}-"
    if place.subject.startswith(start):
        return f"{target_topic}-{place.subject.removeprefix(start)}"
    return place.subject
