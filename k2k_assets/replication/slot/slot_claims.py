"""The claims of one session of a slot: written, defended, given up. The rules are in `fencing_rules.py`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence

from k2k_assets.control.assignment_records import Claim, heartbeat_key, time_value
from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.commit_log import now_ms
from k2k_assets.coordination import fencing_rules
from k2k_assets.coordination.claims import ClaimWriter
from k2k_assets.coordination.liveness import heartbeat_interval_seconds, heartbeat_timeout_seconds
from k2k_assets.core.clock import SYSTEM_CLOCK, Clock
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.plan import PartitionPlan, SlotPlan
from k2k_assets.replication.slot.slot_memory import ClaimHistory
from k2k_assets.replication.slot.transactions import Transactions
from k2k_assets.transport.errors import Fenced

log = logging.getLogger("k2k.replication")

# How often somebody who waits for a release looks for it.
_POLL_SECONDS = 0.1


class SlotClaims:
    """What a slot holds during one session.

    Args:
        plan: The slot.
        history: The claims of former sessions, and what others have taken.
        transactions: Writes claims, heartbeats and releases, each in a transaction of its own.
        tail: The assignment topic.
        transactional_id: Of this session.
        clock: Its clock.
    """

    def __init__(
        self,
        plan: SlotPlan,
        history: ClaimHistory,
        transactions: Transactions,
        tail: AssignmentTail,
        transactional_id: str,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._plan = plan
        self._pipeline = plan.pipeline
        self._history = history
        self._tail = tail
        self._written = ClaimWriter(self._pipeline, tail, transactions, transactional_id, (plan.generation, plan.slot))
        self._claims: dict[TopicPartition, Claim] = {}
        self._heartbeat_interval = heartbeat_interval_seconds(self._pipeline)
        self._heartbeat_timeout = heartbeat_timeout_seconds(self._pipeline)
        self._next_heartbeat = self._clock.monotonic() + self._heartbeat_interval

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """What is held."""
        return self._claims

    # -- before copying -----------------------------------------------------------------------------------------

    def wanted(self) -> list[PartitionPlan]:
        """The partitions of the plan that nobody else has a better right to, by what was read of the topic."""
        state, history, by_partition = self._tail.state, self._history, self._tail.state.by_partition()
        mine = self._plan.generation, self._plan.slot
        alive = state.claims.values()
        history.is_superseded |= fencing_rules.of_a_later_attempt(*mine, history.written, history.last_offset, alive)
        if history.is_superseded:
            return []
        for plan in self._plan.partitions:
            claims = by_partition.get((plan.source_topic_id, plan.source.partition), ())
            above = [claim for claim in claims if claim.generation > mine[0]]
            if above:
                self._take(plan.source, above)
        return [plan for plan in self._plan.partitions if plan.source not in history.superseded_by]

    def claim(self, partitions: Iterable[PartitionPlan]) -> None:
        """Claims partitions under an id that was claimed just now."""
        fresh = self._written.new({plan.source: plan.source_topic_id for plan in partitions})
        # Known before they are written: one whose commit failed may lie in the topic all the same, and must not be
        # taken for that of another attempt of this slot.
        self._history.written.update(claim.claim for claim in fresh.values())
        self._claims = self._written.claim(fresh)
        offsets = (claim.offset for claim in self._claims.values())
        self._history.last_offset = max(offsets, default=self._history.last_offset)

    def left(self) -> list[Claim]:
        """What former sessions of this slot claimed, and what others have taken before it was released."""
        if self._history.is_superseded:  # a later attempt of this slot is at work, under the same id
            return []
        held = {claim.claim for claim in self._claims.values()}
        claims = self._tail.state.claims.values()
        return self._not_to_be_waited_for([c for c in claims if c.claim in self._history.written - held])

    def release_left(self) -> None:
        """Releases that: whoever has taken it would wait for a heartbeat that never comes."""
        if left := self.left():
            self._written.fence(left)

    def settle(self, keep_waiting: Callable[[], None]) -> None:
        """Yields to higher claims; waits for the release of lower ones, then fences those that are left.

        Args:
            keep_waiting: Called about ten times a second; may raise.

        Raises:
            Fenced: Somebody else has claimed the id.
        """
        patience = Deadline(self._heartbeat_timeout)
        while True:
            self.yield_to(self.superseded())
            waiting = self._lower()
            overdue = waiting if patience.expired() else self._not_to_be_waited_for(waiting)
            if overdue:
                self._fence_owners(overdue)
            elif not waiting:
                return
            self.heartbeat_if_due()
            keep_waiting()
            self._tail.refresh(_POLL_SECONDS)
            self._ensure_not_fenced()

    def _ensure_not_fenced(self) -> None:
        """Only who has fenced the holder of a claim removes it, and who waits writes nothing that would be refused."""
        claims = self._tail.state.claims
        gone = [str(tp) for tp, claim in self._claims.items() if claim.claim not in claims]
        if gone:
            raise Fenced(f"the claims of {', '.join(gone)} are gone: somebody has fenced their holder")

    def _lower(self) -> list[Claim]:
        by_partition = self._tail.state.by_partition()
        return [
            claim
            for own in self._claims.values()
            for claim in fencing_rules.rivals(own, by_partition.get(own.what, ()))[1]
        ]

    def _not_to_be_waited_for(self, claims: Iterable[Claim]) -> list[Claim]:
        """What this very slot left under another id, and owners that the driver has found dead.

        But not under an id that somebody newer uses by now, or another slot of this instance: that one fences it, and
        will say so.
        """
        owners = {(self._plan.generation, self._plan.slot), *self._plan.dead}
        left = [claim for claim in claims if claim.owner in owners]
        if not left:
            return []
        plan, group, state = self._plan, self._pipeline.group, self._tail.state
        used = fencing_rules.ids_above(group, plan.generation, state.claims.values(), state.instances)
        used |= fencing_rules.ids_beside(self._pipeline.name, group, plan.slot, plan.slots)
        return [claim for claim in left if claim.transactional_id not in used]

    def _fence_owners(self, claims: Sequence[Claim]) -> None:
        ids = sorted({claim.transactional_id for claim in claims})
        log.warning("slot %d fences %s: no release of what they claimed", self._plan.slot, ", ".join(ids))
        self._written.fence(claims)

    # -- while copying ------------------------------------------------------------------------------------------

    def superseded(self) -> list[TopicPartition]:
        """Partitions that are held here though somebody has a higher claim."""
        found = []
        by_partition = self._tail.state.by_partition()
        for tp, own in self._claims.items():
            higher, _ = fencing_rules.rivals(own, by_partition.get(own.what, ()))
            if higher:
                self._take(tp, higher)
                found.append(tp)
        return found

    def still_holds(self, tp: TopicPartition) -> bool:
        """Whether the topic, as far as it was read, still has the own claim of a partition, and none above it."""
        own = self._claims[tp]
        claims = self._tail.state.by_partition().get(own.what, ())
        return any(claim.claim == own.claim for claim in claims) and not fencing_rules.rivals(own, claims)[0]

    def yield_to(self, partitions: Iterable[TopicPartition]) -> None:
        """Releases partitions to their new owners. Everything that was done for them has been committed or aborted."""
        given = list(partitions)
        if given:
            log.warning(
                "slot %d gives up %s: taken over by %s",
                self._plan.slot, ", ".join(map(str, given)),
                self._history.superseded_by.get(given[0], "another attempt of this slot"),
            )  # fmt: skip
            self.release(given)

    def release(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Writes the tombstones of claims, if there are any; of all, and of the slot's heartbeats, if none are named.

        In a transaction of its own, after the last one that copied: so a release that can be seen is true.
        """
        if not self._claims:
            return
        names = list(self._claims) if partitions is None else list(partitions)
        released = [self._claims.pop(tp) for tp in names]
        written = self._written
        written.write(written.release_all(released) if partitions is None else written.tombstones(released))

    @property
    def heartbeat_is_due(self) -> bool:
        """Whether a heartbeat has to be written, for which no transaction may be open."""
        return self._clock.monotonic() >= self._next_heartbeat

    def heartbeat_if_due(self) -> None:
        """Writes a heartbeat, if it is time for one."""
        if self.heartbeat_is_due:
            self._written.write([(self._heartbeat_key(), time_value(now_ms(self._clock)))])
            self._next_heartbeat = self._clock.monotonic() + self._heartbeat_interval

    def _take(self, tp: TopicPartition, by: Sequence[Claim]) -> None:
        owner = max(by, key=lambda claim: (claim.generation, claim.offset))
        if owner.owner == (self._plan.generation, self._plan.slot):
            self._history.is_superseded = True
            return
        self._history.superseded_by[tp] = self._tail.state.describe(owner.generation)

    def _heartbeat_key(self) -> bytes:
        return heartbeat_key(self._pipeline.group, self._plan.generation, self._plan.slot)
