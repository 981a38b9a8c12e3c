"""The rules by which claimants share partitions, and why they are safe. Pure.

What must never happen: two claimants commit positions of one partition that both follow the same position. What a
claimant does, in this order, for a partition p under its transactional id t:

1. *init* t: whoever held t is fenced, what it left open is aborted, and nothing more can be written under it;
2. *claim*: with one transaction under t, a record with a claim id that is drawn anew, and tombstones of all claims
   that former holders of t left (they are fenced, by 1);
3. *read* the topic to its end as it is after 2, so the own claim and everything before it is seen;
4. *yield* if a higher claim of p is seen: higher generation, or the same generation and written later;
5. *wait* for the release of each lower claim, not for ever, and then init the id that it names and only then write its
   tombstone;
6. *read the position* of p, up to the end of the commit topic as it is after 5; yield if it is of a higher generation;
7. *copy*, committing under t; yield as soon as a higher claim of p is seen;
8. *release*: after the last of its transactions is committed, a tombstone of the own claim. Not in that one: its
   markers reach the partitions one by one, so the tombstone might be seen before the position.

Why that is enough. Take two claimants A and B of p that both get to 6, and let A's claim lie before B's in the log. B
reads it in 3, unless a tombstone came after it. If B finds A's claim higher, it yields: so it finds it lower, or gone.

- *Lower*: B waits for A's release, or fences A. After a release A commits nothing (8); after the fencing it can commit
  nothing (the broker refuses the old epoch) until it inits again, and then its next claim lies after B's.
- *Gone*: its tombstone was written by A itself (8), by somebody who fenced A before (2, 5). The tombstone carries A's
  claim id, so it cannot be about another claim, however late it was written; and no compaction can remove A's claim
  for another reason, because no other record has its key.

Either way, when B reads the position in 6, everything that A ever commits for p is in the log. And A, whose claim was
first, does not commit again under that claim. If it comes back with a new claim after B's, the same holds with the
roles changed: it finds B's claim lower and fences B, or higher and yields, or gone.

Claims are read uncommitted: an open transaction of a dead claimant must not hold up the others. A claim whose
transaction is aborted is one too many, which is fenced in the end. A release or a mark of fencing whose transaction is
aborted is true all the same, because it is written after what it tells of has happened.

So nothing rests on time. `graceWindow`, the heartbeat timeout, only decides when a stand-by takes over from an owner:
fencing somebody too early costs one transaction that is copied again. That is why a driver may fence the ids that its
slots will claim first of all, and those of the dead, before it plans (`orphaned_transactions.py`).

Generations let everybody agree who yields: of two claimants exactly one finds the other higher. A claimant never inits
an id that a higher generation uses, else two instances that copy different partitions would fence each other for ever.
Only in 5, when all patience is over, it may: once for a claim that the holder of that id would have fenced long since.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping

from k2k_assets.control.assignment_records import Claim, InstanceRecord


def transactional_id(pipeline: str, group: str, number: int) -> str:
    """The transactional id of a slot. Its number is the slot's, so a new instance fences what a dead one left.

    The length of the pipeline's name tells where it ends: "a" of group "b.c" and "a.b" of group "c" never share an id.
    """
    return f"k2k.{pipeline}.{group}.{len(pipeline)}.{number}"


def is_higher(claim: Claim, own: Claim) -> bool:
    """Whether the other claim of a partition is the right one."""
    return (claim.generation, claim.offset) > (own.generation, own.offset)


def rivals(own: Claim, claims: Iterable[Claim]) -> tuple[list[Claim], list[Claim]]:
    """The other claims of the same partition: higher ones, and lower ones."""
    others = [claim for claim in claims if claim.what == own.what and claim.claim != own.claim]
    higher = [claim for claim in others if is_higher(claim, own)]
    return higher, [claim for claim in others if not is_higher(claim, own)]


def left_by_former_holders(transactional_id: str, claims: Iterable[Claim]) -> list[Claim]:
    """Claims that are fenced once the id was claimed: all that name it."""
    return [claim for claim in claims if claim.transactional_id == transactional_id]


def ids_above(
    group: str, generation: int, claims: Iterable[Claim], instances: Mapping[int, InstanceRecord]
) -> set[str]:
    """The transactional ids that higher generations use, or will begin with.

    Args:
        group: The pipeline's.
        generation: Of the own instance.
        claims: Live claims.
        instances: Instances by generation: one that has not claimed yet will begin with its lowest numbers.
    """
    used = {claim.transactional_id for claim in claims if claim.generation > generation}
    above = [instance for g, instance in instances.items() if g > generation]
    return used | {transactional_id(i.pipeline, group, number) for i in above for number in range(i.slots)}


def ids_beside(pipeline: str, group: str, slot: int, slots: int) -> set[str]:
    """The transactional ids that the other slots of the own instance begin with.

    Args:
        pipeline: Name of the pipeline.
        group: The pipeline's.
        slot: The own one.
        slots: How many the instance has.
    """
    return {transactional_id(pipeline, group, number) for number in range(slots) if number != slot}


def free_id(pipeline: str, group: str, slot: int, slots: int, used: Collection[str]) -> str:
    """A slot's transactional id: that of its own number, or of the next that no higher generation uses.

    The ids of the slots of one instance never meet: their numbers differ by less than the number of slots.

    Args:
        pipeline: Name of the pipeline.
        group: The pipeline's.
        slot: Which slot.
        slots: How many the instance has.
        used: Ids of higher generations (`ids_above`).
    """
    ids = (transactional_id(pipeline, group, number) for number in itertools.count(slot, slots))
    return next(free for free in ids if free not in used)


def of_a_later_attempt(generation: int, slot: int, own: Collection[str], last: int, claims: Iterable[Claim]) -> bool:
    """Whether the same slot of the same instance was begun a second time, and that attempt has claimed since.

    The earlier attempt, once fenced, has to give way, else the two would fence each other for ever.

    Args:
        generation: Of the instance.
        slot: Which slot.
        own: Ids of all claims that this attempt has written.
        last: Offset of the last of them; -1 if it has written none.
        claims: Live claims.
    """
    later = (c for c in claims if c.owner == (generation, slot) and c.claim not in own and c.offset > last)
    return last >= 0 and any(later)
