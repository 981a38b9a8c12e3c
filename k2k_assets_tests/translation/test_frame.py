"""The present topics of the DataFrame function when the source does not answer."""

from __future__ import annotations

from k2k_assets.mapping.index.manifest import Manifest, NotedPosition
from k2k_assets.translation.frame import copied_last


def _manifest(*positions: NotedPosition) -> Manifest:
    return Manifest(
        group="g",
        source_cluster="c",
        target_cluster="t",
        mapping_topic="m",
        mapping_topic_id="id",
        offsets={},
        pipeline="p",
        directory="d",
        number=1,
        time=0,
        records_read=0,
        runs=0,
        mapped=0,
        positions=list(positions),
    )


def test_a_topic_that_was_created_anew_with_fewer_partitions_is_the_new_one() -> None:
    """Else all of it is answered by the mappings of the former one, and called exact."""
    former = [
        NotedPosition(topic="s", partition=p, source_topic_id="old", position=9, records=9, generation=1, sequence=p)
        for p in (2, 3)
    ]
    anew = [
        NotedPosition(topic="s", partition=p, source_topic_id="new", position=5, records=5, generation=2, sequence=1)
        for p in (0, 1)
    ]
    assert copied_last(_manifest(*anew, *former)) == {"s": "new"}
