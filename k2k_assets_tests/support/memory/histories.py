"""Random histories of the replication in `offset_model`, and the mappings at a moment of one."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from k2k_assets.mapping.algebra.fold import PartitionMapping, fold
from k2k_assets.mapping.algebra.partition_map import PartitionMap, SourcePartition
from k2k_assets_tests.support.memory.offset_model import FILTERED, GAP, RECORD, Moment, Route, World

_KINDS = st.lists(st.sampled_from([RECORD, RECORD, RECORD, GAP, FILTERED]), max_size=30)


def one_to_one(p: int, offset: int) -> int:
    """`partition: source`."""
    return p


def into_one(p: int, offset: int) -> int:
    """A static topic of one partition."""
    return 0


def by_key(p: int, offset: int) -> int:
    """`partition: producer` with three keys: two partitions, and records of one source in both."""
    return (offset * 7 + p) % 3 % 2


@st.composite
def worlds(
    draw: st.DrawFn,
    sources: int = 1,
    targets: int = 1,
    route: Route = one_to_one,
    exactly_once: bool | None = None,
    mappings_complete: bool = True,
    recopies: bool = True,
) -> World:
    """A replication with a history of its own, at the end of which everything is copied.

    Args:
        draw: hypothesis.
        sources: Source partitions.
        targets: Target partitions.
        route: The routing.
        exactly_once: None draws it.
        mappings_complete: False: mapping may be switched on later, and mapping records may be lost.
        recopies: Whether positions are set back now and then.
    """
    logs = [draw(_KINDS) for _ in range(sources)]
    began = [draw(st.integers(0, min(3, len(log)))) for log in logs]
    world = World(logs, began, route, targets, draw(st.booleans()) if exactly_once is None else exactly_once)
    world.mapped = mappings_complete or draw(st.booleans())
    steps: list[tuple[int, Callable[[int], None]]] = [
        (6, lambda p: world.begin(p, draw(st.integers(0, 8)))),
        (5, lambda p: world.commit(p)),
        (1, lambda p: world.abort(p)),
        (1, lambda p: world.foreign(route(p, 0))),
    ]
    if recopies:
        steps.append((1, lambda p: world.recopy(p, draw(st.integers(0, 30)))))
    if not mappings_complete:
        steps.append((1, lambda p: world.commit(p, lost=True)))
        steps.append((1, lambda _: setattr(world, "mapped", True)))
    choices = [step for weight, step in steps for _ in range(weight)]
    for _ in range(draw(st.integers(0, 14))):
        draw(st.sampled_from(choices))(draw(st.integers(0, sources - 1)))
    world.finish()
    return world


def map_at(world: World, p: int, moment: Moment, began_known: bool = True) -> PartitionMap:
    """What a reader of the mapping topic knows of a source partition at a moment."""
    records = [record for record in world.records[: moment.records] if record.partition == p]
    mapping = fold(PartitionMapping(), records)
    began = world.began[p] if began_known else None
    return PartitionMap.of(SourcePartition("c", "s", "sid", p), began, mapping, log_start=began)
