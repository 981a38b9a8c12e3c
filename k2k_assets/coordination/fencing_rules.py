"""The rules by which claimants (slots, overrides) share partitions, and why they are safe. Pure.

The rules prevent one thing: that two claimants commit positions of one partition that both follow the same position. A
claimant takes these steps, in this order, for a partition p under its transactional id t:

1. *init* t (`init_transactions`): this fences the former holder of t, aborts its open transaction, and from then on the
   broker refuses its writes;
2. *claim*: write, in one transaction under t, a claim record with a new claim id, and tombstones of all claims that
   former holders of t left (step 1 has fenced them);
3. *read* the topic to its end as it is after step 2, so that the own claim and all records before it are seen;
4. *yield* if a higher claim of p is seen: one of a higher generation, or of the same generation and written later;
5. *wait* for the release of each lower claim, but not for ever; then init the id that the claim names, and only then
   write the claim's tombstone;
6. *read the position* of p, up to the end of the commit topic as it is after step 5; yield if the position is of a
   higher generation;
7. *copy*, committing under t; yield as soon as a higher claim of p is seen;
8. *release*: after the commit of the last transaction, write a tombstone of the own claim. It is not part of that
   transaction: the markers of a transaction reach the partitions one by one, so readers might see the tombstone before
   the position.

Why this is enough: take two claimants A and B of p that both get to step 6, and let A's claim lie before B's in the
log. B reads A's claim in step 3, unless a tombstone came after it. If B found A's claim higher, B would yield; so B
finds it lower, or gone.

- *Lower*: B waits for A's release, or fences A. After a release A commits nothing (8). After the fencing A can commit
  nothing (the broker refuses the old epoch) until A inits again, and then A's next claim lies after B's.
- *Gone*: the tombstone was written by A itself (8), or by a claimant that had fenced A before (2, 5). It carries A's
  claim id, so it cannot belong to another claim, however late it was written. Compaction cannot remove A's claim for
  another reason, because no other record has its key.

Either way, when B reads the position in step 6, everything that A ever commits for p under its claim is in the log. If
A comes back with a new claim after B's, the same holds with the roles changed: A finds B's claim lower and fences B, or
finds it higher and yields, or finds it gone.

Claims are read uncommitted, so that an open transaction of a dead claimant does not delay the others. A claim whose
transaction is aborted is only one claim too many, which is fenced in the end. A tombstone whose transaction is aborted
is true all the same, because it is written after the release or the fencing that it reports.

So safety depends on no clock. `graceWindow`, the heartbeat timeout, only decides when a stand-by takes over from an
owner: fencing an owner too early costs one transaction that is copied again. That is why a driver may fence, before it
plans, the ids that its slots will init first, and the ids of dead slots (`orphaned_transactions.py`).

Generations let all claimants agree who yields: of two claimants exactly one finds the other higher. A claimant never
inits an id that a higher generation uses, else two instances that copy different partitions would fence each other for
ever. The one exception is step 5 after all waiting: it may init such an id once, for a claim that the holder of that id
should have fenced long ago.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping

from k2k_assets.control.assignment_records import Claim, InstanceRecord


def transactional_id(pipeline: str, group: str, number: int) -> str:
    """The transactional id with a slot's number, so that the slots of a new instance fence those of a dead one.

    The id contains the length of the pipeline's name: "a" of group "b.c" and "a.b" of group "c" never share an id.
    """
    return f"k2k.{pipeline}.{group}.{len(pipeline)}.{number}"


def is_higher(claim: Claim, own: Claim) -> bool:
    """Whether another claim of a partition wins over the own one: higher generation, or the same and written later."""
    return (claim.generation, claim.offset) > (own.generation, own.offset)


def rivals(own: Claim, claims: Iterable[Claim]) -> tuple[list[Claim], list[Claim]]:
    """The other claims of the same partition: those that are higher than the own one, and those that are lower."""
    others = [claim for claim in claims if claim.what == own.what and claim.claim != own.claim]
    higher = [claim for claim in others if is_higher(claim, own)]
    return higher, [claim for claim in others if not is_higher(claim, own)]


def left_by_former_holders(transactional_id: str, claims: Iterable[Claim]) -> list[Claim]:
    """The claims that name a transactional id: initialising the id has fenced all of them."""
    return [claim for claim in claims if claim.transactional_id == transactional_id]


def ids_above(
    group: str, generation: int, claims: Iterable[Claim], instances: Mapping[int, InstanceRecord]
) -> set[str]:
    """The transactional ids that higher generations use, or will begin with.

    Args:
        group: The pipeline's group.
        generation: Generation of the own instance.
        claims: Claims that are neither released nor fenced.
        instances: Instances by generation; an instance that has not claimed yet will begin with the lowest numbers.
    """
    used = {claim.transactional_id for claim in claims if claim.generation > generation}
    above = [instance for g, instance in instances.items() if g > generation]
    return used | {transactional_id(i.pipeline, group, number) for i in above for number in range(i.slots)}


def ids_beside(pipeline: str, group: str, slot: int, slots: int) -> set[str]:
    """The transactional ids that the other slots of the own instance begin with.

    Args:
        pipeline: Name of the pipeline.
        group: The pipeline's group.
        slot: Number of the own slot.
        slots: Number of slots of the instance.
    """
    return {transactional_id(pipeline, group, number) for number in range(slots) if number != slot}


def free_id(pipeline: str, group: str, slot: int, slots: int, used: Collection[str]) -> str:
    """The transactional id for a slot: the first of `slot`, `slot + slots`, ... that no higher generation uses.

    Two slots of one instance never get the same id, because their numbers differ by less than the number of slots.

    Args:
        pipeline: Name of the pipeline.
        group: The pipeline's group.
        slot: Number of the slot.
        slots: Number of slots of the instance.
        used: Ids of higher generations (`ids_above`).
    """
    ids = (transactional_id(pipeline, group, number) for number in itertools.count(slot, slots))
    return next(free for free in ids if free not in used)


def of_a_later_attempt(generation: int, slot: int, own: Collection[str], last: int, claims: Iterable[Claim]) -> bool:
    """Whether Spark has started the same slot of the same generation again, and the new attempt has claimed since.

    The earlier attempt, once fenced, has to give way, else the two would fence each other for ever.

    Args:
        generation: Generation of the slot.
        slot: Number of the slot.
        own: Claim ids of all claims that this attempt has written.
        last: Offset of the last claim that this attempt has written; -1 if it has written none.
        claims: Claims that are neither released nor fenced.
    """
    later = (c for c in claims if c.owner == (generation, slot) and c.claim not in own and c.offset > last)
    return last >= 0 and any(later)
