"""An explicit model of claimants of a partition, for `test_model.py`.

It has the claims in the assignment topic, the commit topic, and the broker's epoch of each transactional id. These
steps may happen, one at a time, in any order:

- a claimant takes the next step of `fencing_rules.py`: it is announced, initializes its id, claims, reads, fences the
  owner of a lower claim, marks that claim as fenced, reads the position, commits, releases. Between any two of its
  steps every other claimant may take any number of steps, so a freeze is an interleaving like any other, and a mark may
  come as late as possible;
- a claimant is killed, or the broker refuses it, and it begins again, under its generation or a newer one;
- a driver fences early each claimant that may have an open transaction;
- the cleaner compacts the assignment topic: new readers no longer see a claim after a later record with its key.
  Earlier readers still know it. With a key for each claim (`own_keys`) only the tombstone of a claim has its key, and
  then nobody counts the claim any more: this step changes nothing. That is the proof, not an omission.

Worlds that differ only in values that no step reads are the same (`World.canonical`). Decisions come from the functions
that the engine uses.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from k2k_assets.control.assignment_records import Claim, InstanceRecord
from k2k_assets.coordination import fencing_rules
from k2k_assets.coordination.fencing_rules import transactional_id

# For instances with two slots, and for a case with an instance of three.
_IDS, _MORE_IDS = 4, 6
# Slots of an instance, unless the claimant's slot implies more.
_SLOTS = 2
# More worlds than this are an error, because they would take too many minutes.
_MOST = 5_000_000
# Steps at which a claimant has no transactional id, and steps that need one that it still holds.
_WITHOUT_ID = ("new", "init", "gone", "refused")
_WRITES = ("claim", "mark", "commit", "release")
_INSTANCE = InstanceRecord("", "p", 1, "", "", 0, 0)


@dataclass(frozen=True)
class Rules:
    """Which of the rules hold.

    Attributes:
        unique_claim_ids: A mark or a release is about one claim; else about whatever claim its transactional id has.
        own_keys: No two claims have the same record key; else all claims of a transactional id have, and their marks,
            which then say in their value which one they are about.
        read_after_claim: What others claim is read after the own claim is written.
        yield_to_higher_claim: Who sees a higher claim does not copy.
        fence_before_mark: An owner is fenced before that is said.
        position_after_fencing: The position is read after all others are fenced.
        release_after_commit: A claim is released after the last commit.
        yield_to_newer_position: Who sees the position of a newer generation does not copy.
        own_number: Nobody claims a transactional id that a higher generation uses.
    """

    unique_claim_ids: bool = True
    own_keys: bool = True
    read_after_claim: bool = True
    yield_to_higher_claim: bool = True
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
    partition: int = 0
    number: int = 0
    claim: str = ""
    lower: tuple[Claim, ...] = ()
    position: int = 0
    left: int = 1

    @property
    def told_apart_by(self) -> tuple[int, int, int]:
        """What no two claimants have in common, once they are announced."""
        return self.slot, self.partition, self.generation

    def begun(self, at: str, generation: int, lives: int) -> Claimant:
        """One that remembers nothing."""
        return Claimant(at, generation, self.slot, lives, self.partition)


class World(NamedTuple):
    """Everything that lasts.

    Attributes:
        claims: Those that count for who reads the assignment topic now.
        covered: Names of those whose key a later record has.
        newest: Generation and position that count for a reader of the commit topic, of each partition.
        holders: Which claimant may write under each transactional id; -1 if none may.
        claimants: All.
        drawn: Next offset of the assignment topic.
        broken: Whether a position was committed that did not follow the last one.
    """

    claims: frozenset[Claim]
    covered: frozenset[str]
    newest: tuple[tuple[int, int], ...]
    holders: tuple[int, ...]
    claimants: tuple[Claimant, ...]
    drawn: int
    broken: bool = False

    def set(self, index: int, claimant: Claimant) -> World:
        """With one claimant changed."""
        return self._replace(claimants=(*self.claimants[:index], claimant, *self.claimants[index + 1 :]))

    def held(self, number: int, holder: int) -> World:
        """With an id claimed anew."""
        return self._replace(holders=(*self.holders[:number], holder, *self.holders[number + 1 :]))

    def without(self, names: Collection[str]) -> World:
        """After tombstones of these claims: who waits for their end sees it."""
        return self._replace(
            claims=frozenset(claim for claim in self.claims if claim.claim not in names),
            claimants=tuple(_not_waiting_for(names, c) if c.lower else c for c in self.claimants),
        )

    def canonical(self) -> World:
        """The same, without what nobody looks at any more, and with numbers as small as their order allows."""
        holds = [self.holders[c.number] == index for index, c in enumerate(self.claimants)]
        claimants = tuple(map(_forgetful, self.claimants, holds))
        known = [*self.claims, *(claim for c in claimants for claim in c.lower)]
        of_generation = _ranks({claim.generation for claim in known} | {c.generation for c in claimants})
        of_offset = _ranks({claim.offset for claim in known})
        ranked = {claim: _ranked(claim, of_generation[claim.generation], of_offset[claim.offset]) for claim in known}
        names = {claim.claim: small.claim for claim, small in ranked.items()}
        users: dict[int, list[int]] = {}
        for index, claimant in enumerate(claimants):
            if claimant.at not in _WITHOUT_ID:
                users.setdefault(claimant.number, []).append(index)
        # Claimants of the same slot are interchangeable, so they are sorted: swapped ones give the same world.
        order = sorted(range(len(claimants)), key=lambda i: claimants[i].told_apart_by)
        return World(
            claims=frozenset(ranked[claim] for claim in self.claims),
            covered=frozenset(names[claim.claim] for claim in self.claims if claim.claim in self.covered),
            newest=tuple(
                (of_generation[_as_good_as(generation, claimants)], max(position, -1))
                for generation, position in self.newest
            ),
            holders=tuple(order.index(h) if h in users.get(n, ()) else -1 for n, h in enumerate(self.holders)),
            claimants=tuple(_with_numbers(claimants[i], of_generation, ranked, names) for i in order),
            drawn=max(len(of_generation), len(of_offset)),
            broken=self.broken,
        )


def _as_good_as(generation: int, claimants: Sequence[Claimant]) -> int:
    """The generation of a claimant that is newer than the same ones; -1 if that is none."""
    at_least = [c.generation for c in claimants if c.generation >= generation]
    return min(at_least) if len(at_least) < len(claimants) else -1


def _with_numbers(
    claimant: Claimant, generations: Mapping[int, int], claims: Mapping[Claim, Claim], names: Mapping[str, str]
) -> Claimant:
    return claimant._replace(
        generation=generations[claimant.generation],
        claim=names.get(claimant.claim, "gone" if claimant.claim else ""),
        lower=tuple(claims[claim] for claim in claimant.lower),
    )


def _not_waiting_for(names: Collection[str], claimant: Claimant) -> Claimant:
    """What is to be marked next is marked all the same: it was fenced before."""
    kept = 1 if claimant.at == "mark" else 0
    rest = tuple(claim for claim in claimant.lower[kept:] if claim.claim not in names)
    return claimant._replace(lower=(*claimant.lower[:kept], *rest))


def _forgetful(claimant: Claimant, holds: bool) -> Claimant:
    """Without what no step of it will use."""
    if claimant.at in _WRITES and not holds:
        return claimant.begun("refused", claimant.generation, claimant.lives)
    match claimant.at:
        case "new" | "init" | "gone" | "refused":
            return claimant.begun(claimant.at, claimant.generation, claimant.lives)
        case "fence" | "mark" | "look" | "commit":
            return claimant._replace(position=max(claimant.position, -1))
        case _:
            return claimant._replace(position=0, left=1)


def _ranks(numbers: set[int]) -> dict[int, int]:
    return {number: rank for rank, number in enumerate(sorted(numbers - {-1}))} | {-1: -1}


@functools.cache
def _ranked(claim: Claim, generation: int, offset: int) -> Claim:
    name = f"claim {offset}" if claim.claim.startswith("claim") else claim.claim
    return replace(claim, generation=generation, offset=offset, claim=name)


class Model:
    """All steps that can be taken in a world.

    Args:
        held: The rules.
        killed: Whether claimants are killed, and fenced early by drivers. If not, being refused costs no life.
    """

    def __init__(self, held: Rules, killed: bool = True) -> None:
        self._rules = held
        self._killed = killed

    def first(
        self, slots: Sequence[int], lives: Sequence[int], partitions: Sequence[int], announced: bool = False
    ) -> World:
        """As many instances as slots are given; nobody knows of them yet, or all are announced in this order."""
        begun = tuple(
            Claimant("init" if announced else "new", index if announced else -1, slot, left, partition)
            for index, (slot, left, partition) in enumerate(zip(slots, lives, partitions, strict=True))
        )
        newest = ((-1, 0),) * (max(partitions) + 1)
        drawn = len(slots) if announced else 0
        ids = _IDS if max(slots) < _SLOTS else _MORE_IDS
        return World(frozenset(), frozenset(), newest, (-1,) * ids, begun, drawn)

    def steps(self, world: World) -> Iterator[World]:
        """All worlds that are one step away."""
        for index, me in enumerate(world.claimants):
            if me.at == "refused" or (me.at in _WRITES and world.holders[me.number] != index):
                yield from self._anew(world, index, me)  # the broker refuses: its id was claimed away
                continue
            if me.at != "gone":
                yield from getattr(self, f"_{me.at}")(world, index, me)
            if me.at not in ("new", "init") and self._killed:
                yield from self._anew(world, index, me)  # killed here, or woken from standing by
        yield from _compacted(world)

    def _anew(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        """Nothing is taken from memory: the slot's next session, or the driver's next generation."""
        left = world._replace(holders=tuple(-1 if holder == index else holder for holder in world.holders))
        if not self._killed:
            yield left.set(index, me.begun("init", me.generation, me.lives))
        elif me.lives:
            yield left.set(index, me.begun("init", me.generation, me.lives - 1))
            yield left._replace(drawn=world.drawn + 1).set(index, me.begun("init", world.drawn, me.lives - 1))
        elif me.at != "gone":
            yield left.set(index, me.begun("gone", me.generation, 0))

    def _new(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        """Its driver announces it."""
        begun = me.begun("init", world.drawn, me.lives)
        yield world._replace(drawn=world.drawn + 1).set(index, begun)

    def _init(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        if any(claim.generation > me.generation and claim.partition == me.partition for claim in world.claims):
            yield world.set(index, me._replace(at="gone"))  # it stands by
            return
        used = self._used_above(world, me)
        if self._killed:
            yield from self._fence_early(world, index, used)
        number = _number(fencing_rules.free_id("p", "g", me.slot, max(_SLOTS, me.slot + 1), used))
        if number < len(world.holders):
            yield world.held(number, index).set(index, me._replace(at="claim", number=number))

    def _used_above(self, world: World, me: Claimant) -> Collection[str]:
        if not self._rules.own_number:
            return ()
        above = {c.generation: _INSTANCE for c in world.claimants if c.generation > me.generation}
        return fencing_rules.ids_above("g", me.generation, world.claims, above)

    def _fence_early(self, world: World, index: int, used: Collection[str]) -> Iterator[World]:
        """What the driver does whom an open transaction holds up: nobody knows whether that owner is dead."""
        for number, holder in enumerate(world.holders):
            if holder not in (-1, index) and _id("p", number) not in used:
                yield world.held(number, -1)

    def _claim(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        left = {claim.claim for claim in fencing_rules.left_by_former_holders(_id("p", me.number), world.claims)}
        name = f"claim {world.drawn}" if self._rules.unique_claim_ids else _id("p", me.number)
        own = Claim("s", me.partition, _id("p", me.number), name, me.generation, me.slot, "t", world.drawn)
        seen = _in_order(fencing_rules.rivals(own, world.claims)[1])
        claimed = self._written(world, [own]).without(left | {name})
        claimed = claimed._replace(claims=claimed.claims | {own}, drawn=world.drawn + 1)
        me = claimed.claimants[index]._replace(claim=name)
        if self._rules.read_after_claim:
            yield claimed.set(index, me._replace(at="read"))
        else:
            yield claimed.set(index, me._replace(at="fence", lower=seen))

    def _written(self, world: World, about: Iterable[Claim]) -> World:
        """After records that have the keys of these claims, or of a claim that is new: what now may be compacted."""
        if self._rules.own_keys:
            return world  # only a claim's own tombstone has its key
        keys = {claim.transactional_id for claim in about}
        covered = {claim.claim for claim in world.claims if claim.transactional_id in keys}
        return world._replace(covered=world.covered | covered)

    def _read(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        own = next((claim for claim in world.claims if claim.claim == me.claim), None)
        if own is None:
            yield from self._anew(world, index, me)
            return
        higher, lower = fencing_rules.rivals(own, world.claims)
        if higher and self._rules.yield_to_higher_claim:
            yield world.set(index, me._replace(at="release"))
            return
        # A position that will be read again does not count.
        position = -1 if self._rules.position_after_fencing else world.newest[me.partition][1]
        yield world.set(index, me._replace(at="fence", lower=_in_order(lower), position=position))

    def _fence(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        """Lower claims that were not released meanwhile: their ids are claimed away, one after the other."""
        if not me.lower:
            yield world.set(index, me._replace(at="look"))
            return
        number = _number(me.lower[0].transactional_id)
        fenced = world.held(number, -1) if self._rules.fence_before_mark else world
        yield fenced.set(index, me._replace(at="mark"))

    def _mark(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        """It may come late: anything can have happened since the fencing."""
        fenced = me.lower[0]
        marked = self._written(world.set(index, me._replace(at="fence", lower=me.lower[1:])), [fenced])
        yield marked.without({fenced.claim})

    def _look(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        generation, position = world.newest[me.partition]
        if generation > me.generation and self._rules.yield_to_newer_position:
            yield world.set(index, me._replace(at="release"))
            return
        known = position if self._rules.position_after_fencing else me.position
        early = not self._rules.release_after_commit
        yield (world.without({me.claim}) if early else world).set(index, me._replace(at="commit", position=known))

    def _commit(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        """One more position: that becomes the one from which positions are counted."""
        generation, position = world.newest[me.partition]
        counts = me.generation >= generation
        newest = (me.generation, 0) if counts else (generation, position - 1)
        committed = world._replace(
            newest=(*world.newest[: me.partition], newest, *world.newest[me.partition + 1 :]),
            broken=me.position != 0,
            claimants=tuple(
                c._replace(position=c.position - 1) if c.partition == me.partition else c for c in world.claimants
            ),
        )
        at = "commit" if me.left else "release"
        yield committed.set(index, me._replace(at=at, position=0, left=me.left - 1))

    def _release(self, world: World, index: int, me: Claimant) -> Iterator[World]:
        own = [claim for claim in world.claims if claim.claim == me.claim]
        yield self._written(world, own).without({me.claim}).set(index, me._replace(at="gone", claim=""))


def _in_order(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    return tuple(sorted(claims, key=lambda claim: claim.offset))


def _compacted(world: World) -> Iterator[World]:
    """The cleaner has removed a claim: who reads from now on does not see it; who waits for its end still does."""
    for claim in world.claims:
        if claim.claim in world.covered:
            yield world._replace(claims=world.claims - {claim})


def explore(
    slots: Sequence[int], lives: Sequence[int], held: Rules, announced: bool = False
) -> tuple[int, World | None]:
    """Goes everywhere.

    A world is known again by its hash alone, of 64 bits: of a million worlds two have the same one in one of some ten
    million explorations.

    Args:
        slots: Which slot the partition is of, in each instance.
        lives: How often each instance may begin anew.
        held: The rules.
        announced: Whether all instances are announced from the start: far fewer worlds.

    Returns:
        How many worlds there are, and one in which a position was committed wrongly.
    """
    model = Model(held)
    first = model.first(slots, lives, [0] * len(slots), announced).canonical()
    seen, waiting = {hash(first)}, [first]
    while waiting:
        for step in model.steps(waiting.pop()):
            if step.broken:
                return len(seen), step
            found = step.canonical()
            if (number := hash(found)) not in seen:
                seen.add(number)
                waiting.append(found)
                assert len(seen) < _MOST, "too many worlds"
    return len(seen), None


def goes_on_for_ever(slots: Sequence[int], partitions: Sequence[int], held: Rules) -> list[World]:
    """A circle of worlds in which claimants fence each other without end, though nobody is killed; empty if none is.

    Args:
        slots: Which slot each instance has.
        partitions: Which partition each instance copies.
        held: The rules.
    """
    model = Model(held, killed=False)
    first = model.first(slots, [0] * len(slots), partitions).canonical()
    path, below = [first], [_next(model, first)]
    on_path, ended = {first}, set[World]()
    while path:
        found = next(below[-1], None)
        if found is None:
            below.pop()
            ended.add(path[-1])
            on_path.remove(path.pop())
        elif found in on_path:
            return path[path.index(found) :]
        elif found not in ended:
            path.append(found)
            on_path.add(found)
            below.append(_next(model, found))
    return []


def _next(model: Model, world: World) -> Iterator[World]:
    return (step.canonical() for step in model.steps(world))


def _id(pipeline: str, number: int) -> str:
    return transactional_id(pipeline, "g", number)


def _number(of_id: str) -> int:
    return int(of_id.rsplit(".", 1)[1])
