"""An explicit model of claimants of one partition, for `test_model.py`.

It has the claims that the assignment topic tells of, the commit topic, and what the broker keeps of each transactional
id: its epoch. Compaction needs no step of its own: what a reader gets of a compacted topic is the last record of each
key, compacted or not, and that is what the model keeps. A claimant is a small program of the steps in `rules.py`.
Between any two of its steps every other claimant may take any number of steps, so that a freeze is an interleaving like
any other, and it may be killed before any of them. Decisions are made by the very functions that the engine uses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from k2k_assets.replication.assignment import rules
from k2k_assets.replication.assignment.records import Claim, Instance
from k2k_assets.replication.plan import transactional_id

_IDS = 4


@dataclass(frozen=True)
class Rules:
    """Which of the rules hold."""

    unique_claim_ids: bool = True
    read_after_claim: bool = True
    fence_before_mark: bool = True
    position_after_fencing: bool = True
    release_after_commit: bool = True
    yield_to_newer_position: bool = True
    own_number: bool = True


class Claimant(NamedTuple):
    """Where a claimant's program stands, and what it remembers. Positions are counted from the last one committed."""

    at: str
    generation: int
    slot: int
    lives: int
    number: int = 0
    claim: str = ""
    lower: tuple[Claim, ...] = ()
    position: int = 0
    left: int = 1


class World(NamedTuple):
    """Everything that lasts.

    Attributes:
        claims: Those that a reader sees, by record key.
        newest: Generation and position that count for a reader of the commit topic.
        holders: Which claimant may write under each transactional id; -1 if none may.
        claimants: All.
        drawn: Next offset of the assignment topic.
        broken: Whether a position was committed that did not follow the last one.
    """

    claims: frozenset[tuple[str, Claim]]
    newest: tuple[int, int]
    holders: tuple[int, ...]
    claimants: tuple[Claimant, ...]
    drawn: int
    broken: bool = False

    @property
    def live(self) -> list[Claim]:
        """Claims that a reader sees."""
        return [claim for _, claim in self.claims]

    def set(self, index: int, claimant: Claimant) -> World:
        """With one claimant changed."""
        return self._replace(claimants=(*self.claimants[:index], claimant, *self.claimants[index + 1 :]))

    def held(self, number: int, holder: int) -> World:
        """With an id claimed anew."""
        return self._replace(holders=(*self.holders[:number], holder, *self.holders[number + 1 :]))

    def without(self, keys: set[str]) -> World:
        """After tombstones of these keys."""
        return self._replace(claims=frozenset((key, claim) for key, claim in self.claims if key not in keys))

    def canonical(self) -> World:
        """The same, with offsets and generations that are as small as their order allows: few worlds look different."""
        waited_for = [claim for claimant in self.claimants for claim in claimant.lower]
        numbers = {claim.offset for claim in [*self.live, *waited_for]} | {c.generation for c in self.claimants}
        numbers |= {claim.generation for claim in [*self.live, *waited_for]} | {self.newest[0]}
        rank = {number: i for i, number in enumerate(sorted(numbers - {-1}))} | {-1: -1}

        def ranked(claim: Claim) -> Claim:
            offset = rank[claim.offset]
            name = f"claim {offset}" if claim.claim.startswith("claim") else claim.claim
            return replace(claim, generation=rank[claim.generation], offset=offset, claim=name)

        names = {claim.claim: ranked(claim).claim for claim in [*self.live, *waited_for]}
        return self._replace(
            claims=frozenset((names[key], ranked(claim)) for key, claim in self.claims),
            newest=(rank[self.newest[0]], self.newest[1]),
            claimants=tuple(
                c._replace(
                    generation=rank[c.generation],
                    claim=names.get(c.claim, "gone" if c.claim else ""),
                    lower=tuple(ranked(claim) for claim in c.lower),
                )
                for c in self.claimants
            ),
            drawn=len(rank),
        )


class Model:
    """All steps that can be taken in a world.

    Args:
        held: The rules.
    """

    def __init__(self, held: Rules) -> None:
        self._rules = held

    def first(self, slots: list[int], lives: int) -> World:
        """As many instances as slots are given, all about to begin."""
        begun = tuple(Claimant("init", generation, slot, lives) for generation, slot in enumerate(slots))
        return World(frozenset(), (-1, 0), (-1,) * _IDS, begun, len(slots))

    def steps(self, world: World) -> Iterator[World]:
        """All worlds that are one step away."""
        for index, me in enumerate(world.claimants):
            if me.at in ("claim", "mark", "commit", "release") and world.holders[me.number] != index:
                yield from self._anew(world, index, me)  # the broker refuses
                continue
            if me.at != "gone":
                yield from getattr(self, f"_{me.at}")(world, index, me)
            if me.at != "init":
                yield from self._anew(world, index, me)  # killed here, or woken from standing by

    def _anew(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        """Nothing is taken from memory: the slot's next session, or the driver's next generation."""
        left = world._replace(holders=tuple(-1 if holder == index else holder for holder in world.holders))
        if me.lives:
            yield left.set(index, Claimant("init", me.generation, me.slot, me.lives - 1))
            fresh = Claimant("init", world.drawn, me.slot, me.lives - 1)
            yield left._replace(drawn=world.drawn + 1).set(index, fresh)
        elif me.at != "gone":
            yield left.set(index, Claimant("gone", me.generation, me.slot, 0))

    def _init(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        if any(claim.generation > me.generation for claim in world.live):
            yield world.set(index, me._replace(at="gone"))  # it stands by
            return
        above = {
            c.generation: Instance("", "p", 1, "", "", 0, 0) for c in world.claimants if c.generation > me.generation
        }
        used = rules.ids_above("g", me.generation, world.live, above) if self._rules.own_number else ()
        yield from self._fence_early(world, index, used)
        number = _number(rules.free_id("p", "g", me.slot, 2, used))
        if number < _IDS:
            yield world.held(number, index).set(index, me._replace(at="claim", number=number))

    def _fence_early(self, world: World, index: int, used: Collection[str]) -> Iterator[World]:
        """What the driver does whom an open transaction holds up: nobody knows whether that owner is dead."""
        for number, holder in enumerate(world.holders):
            if holder not in (-1, index) and _id("p", number) not in used:
                yield world.held(number, -1)

    def _claim(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        left = {claim.claim for claim in rules.left_by_former_holders(_id("p", me.number), world.live)}
        name = f"claim {world.drawn}" if self._rules.unique_claim_ids else _id("p", me.number)
        own = Claim("s", 0, _id("p", me.number), name, me.generation, me.slot, "t", world.drawn)
        seen = tuple(rules.rivals(own, world.live)[1])
        claimed = world.without(left | {name})
        claimed = claimed._replace(claims=claimed.claims | {(name, own)}, drawn=world.drawn + 1)
        me = me._replace(claim=name)
        if self._rules.read_after_claim:
            yield claimed.set(index, me._replace(at="read"))
        else:
            yield claimed.set(index, me._replace(at="fence", lower=seen))

    def _read(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        own = next((claim for claim in world.live if claim.claim == me.claim), None)
        if own is None:
            yield from self._anew(world, index, me)
            return
        higher, lower = rules.rivals(own, world.live)
        position = world.newest[1]
        step = me._replace(at="release") if higher else me._replace(at="fence", lower=tuple(lower), position=position)
        yield world.set(index, step)

    def _fence(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        """Lower claims that were not released meanwhile: their ids are claimed away, one after the other."""
        waiting = tuple(claim for claim in me.lower if claim in world.live)
        if not waiting:
            yield world.set(index, me._replace(at="look", lower=()))
            return
        number = _number(waiting[0].transactional_id)
        fenced = world.held(number, -1) if self._rules.fence_before_mark else world
        yield fenced.set(index, me._replace(at="mark", lower=waiting))

    def _mark(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        """It may come late: anything can have happened since the fencing."""
        marked = world.without({me.lower[0].claim})
        yield marked.set(index, me._replace(at="fence", lower=me.lower[1:]))

    def _look(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        generation, position = world.newest
        if generation > me.generation and self._rules.yield_to_newer_position:
            yield world.set(index, me._replace(at="release"))
            return
        known = position if self._rules.position_after_fencing else me.position
        early = not self._rules.release_after_commit
        yield (world.without({me.claim}) if early else world).set(index, me._replace(at="commit", position=known))

    def _commit(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        """One more position: that becomes the one from which positions are counted."""
        generation, position = world.newest
        counts = me.generation >= generation
        committed = world._replace(newest=(me.generation, 0) if counts else (generation, position - 1))
        committed = committed._replace(
            broken=me.position != 0,
            claimants=tuple(c._replace(position=c.position - 1) for c in world.claimants),
        )
        at = "commit" if me.left else "release"
        yield committed.set(index, me._replace(at=at, position=0, left=me.left - 1))

    def _release(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        yield world.without({me.claim}).set(index, me._replace(at="gone", claim=""))


def explore(slots: list[int], lives: int, held: Rules, most: int = 5_000_000) -> tuple[int, World | None]:
    """Goes everywhere.

    Args:
        slots: Which slot the partition is of, in each instance.
        lives: How often each instance may begin anew.
        held: The rules.
        most: More worlds than this are an error.

    Returns:
        How many worlds there are, and one in which a position was committed wrongly.
    """
    model = Model(held)
    first = model.first(slots, lives)
    seen, waiting = {first}, [first]
    while waiting:
        for step in model.steps(waiting.pop()):
            if step.broken:
                return len(seen), step
            found = step.canonical()
            if found not in seen:
                seen.add(found)
                waiting.append(found)
                assert len(seen) < most, "too many worlds"
    return len(seen), None


def _id(pipeline: str, number: int) -> str:
    return transactional_id(pipeline, "g", number)


def _number(of_id: str) -> int:
    return int(of_id.rsplit(".", 1)[1])
