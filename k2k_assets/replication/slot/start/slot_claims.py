"""The claims of one session of a slot: it writes, defends and releases them by `coordination/fencing_rules.py`."""

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
from k2k_assets.replication.slot.commit.transactions import Transactions
from k2k_assets.replication.slot.slot_memory import ClaimHistory
from k2k_assets.transport.errors import Fenced

log = logging.getLogger("k2k.replication")

# How often to look for the release of another owner while waiting for it.
_POLL_SECONDS = 0.1


class SlotClaims:
    """The claims that a slot holds during one session.

    Args:
        plan: The slot.
        history: The claims of former sessions, and the partitions that others have taken over.
        transactions: Writes claims, heartbeats and releases, each in a transaction of its own.
        tail: Follows the assignment topic.
        transactional_id: The session's transactional id.
        clock: The clock.
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
        """The source partitions that the slot holds claims of."""
        return self._claims

    # -- before copying -----------------------------------------------------------------------------------------

    def wanted(self, given_up: Collection[TopicPartition] = ()) -> list[PartitionPlan]:
        """The planned partitions without a higher claim, as far as the assignment topic was read.

        Args:
            given_up: Partitions that the slot has stopped and released.
        """
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
        return [plan for plan in self._plan.partitions if plan.source not in {*history.superseded_by, *given_up}]

    def claim(self, partitions: Iterable[PartitionPlan]) -> None:
        """Claims partitions under the transactional id, which was initialised just now."""
        fresh = self._written.new({plan.source: plan.source_topic_id for plan in partitions})
        # Noted before they are written: a claim whose commit failed may lie in the topic all the same, and must not be
        # taken for the claim of another attempt of this slot.
        self._history.written.update(claim.claim for claim in fresh.values())
        self._claims = self._written.claim(fresh)
        offsets = (claim.offset for claim in self._claims.values())
        self._history.last_offset = max(offsets, default=self._history.last_offset)

    def left(self) -> list[Claim]:
        """Claims of former sessions of this slot that were never released, and that this session does not hold."""
        if self._history.is_superseded:  # a later attempt of this slot is at work, under the same id
            return []
        held = {claim.claim for claim in self._claims.values()}
        claims = self._tail.state.claims.values()
        return self._not_to_be_waited_for([c for c in claims if c.claim in self._history.written - held])

    def release_left(self) -> None:
        """Fences and releases the claims that `left` finds: other instances would wait for their release."""
        if left := self.left():
            self._written.fence(left)

    def settle(self, keep_waiting: Callable[[], None]) -> None:
        """Yields to higher claims; waits for the release of lower ones, then fences those that are left.

        Args:
            keep_waiting: Called about ten times a second; may raise.

        Raises:
            Fenced: Another slot has fenced this one.
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
        """Raises `Fenced` if own claims are gone from the topic: only a slot that fenced their holder removes them.

        While the slot waits, it writes nothing that the broker would refuse, so it has to look.
        """
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
        """The claims to fence without waiting: those that this slot left under another id, and those of dead slots.

        Claims under an id that a newer generation or another slot of this instance uses by now are left out: that one
        fences them when it initialises the id, and then writes their tombstones.
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
        """Partitions of this slot of which another slot has a higher claim."""
        found = []
        by_partition = self._tail.state.by_partition()
        for tp, own in self._claims.items():
            higher, _ = fencing_rules.rivals(own, by_partition.get(own.what, ()))
            if higher:
                self._take(tp, higher)
                found.append(tp)
        return found

    def still_holds(self, tp: TopicPartition) -> bool:
        """Whether the topic, as far as it was read, has the own claim of a partition and no higher one."""
        own = self._claims[tp]
        claims = self._tail.state.by_partition().get(own.what, ())
        return any(claim.claim == own.claim for claim in claims) and not fencing_rules.rivals(own, claims)[0]

    def yield_to(self, partitions: Iterable[TopicPartition]) -> None:
        """Releases partitions to their new owners. All transactions with their records must be committed or aborted."""
        given = list(partitions)
        if given:
            log.warning(
                "slot %d gives up %s: taken over by %s",
                self._plan.slot, ", ".join(map(str, given)),
                self._history.superseded_by.get(given[0], "another attempt of this slot"),
            )  # fmt: skip
            self.release(given)

    def release(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Writes the tombstones of claims; without an argument of all claims, and of the slot's heartbeats.

        The tombstones have a transaction of their own, after the last one with records: so a visible release is true.
        """
        if not self._claims:
            return
        names = list(self._claims) if partitions is None else list(partitions)
        released = [self._claims.pop(tp) for tp in names]
        written = self._written
        written.write(written.release_all(released) if partitions is None else written.tombstones(released))

    @property
    def heartbeat_is_due(self) -> bool:
        """Whether it is time for a heartbeat. No transaction may be open when it is written."""
        return self._clock.monotonic() >= self._next_heartbeat

    def heartbeat_if_due(self) -> None:
        """Writes a heartbeat if it is time for one."""
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
