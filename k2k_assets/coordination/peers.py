"""Peers: what the other instances of the group do with the partitions that a driver wants to copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping

from k2k_assets.control.assignment_records import Claim, InstanceRecord
from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.pause_records import Pause
from k2k_assets.coordination import fencing_rules
from k2k_assets.coordination.announce import announce
from k2k_assets.coordination.liveness import Liveness, heartbeat_timeout_seconds
from k2k_assets.coordination.restarting_peers import RestartingPeers
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline


class Peers:
    """Tells which partitions other instances copy, and when they have released them.

    An instance takes over all its partitions when it begins, because the newest instance wins. Later it draws new
    generations only for partitions that no other instance copies, else two instances would take partitions from each
    other for ever.

    Args:
        pipeline: Names the group.
        tail: Follows the assignment topic.
        clock: Seconds that only rise.
    """

    def __init__(self, pipeline: Pipeline, tail: AssignmentTail, clock: Callable[[], float] = time.monotonic) -> None:
        self._pipeline = pipeline
        self._tail = tail
        self._own: list[int] = []
        self._restarting = RestartingPeers(tail.state, clock)
        self._liveness = Liveness(tail.state, heartbeat_timeout_seconds(pipeline), clock)

    def draw_generation(self, instance: InstanceRecord) -> int:
        """Writes the instance record of this process, for the first time or again; returns the new generation."""
        self._own.append(announce(self._pipeline, self._tail, instance))
        self._liveness.note()
        return self._own[-1]

    def claimed_by_newest(self, partitions: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
        """The partitions whose last claim is by a slot of the newest own generation, each with the slot.

        Args:
            partitions: Source topic id of each partition.
        """
        own, claimed = max(self._own, default=-1), self._tail.state.claimed
        last = {tp: claimed.get((topic_id, tp.partition), (-1, -1)) for tp, topic_id in partitions.items()}
        return {tp: slot for tp, (generation, slot) in last.items() if generation == own >= 0}

    def refresh(self) -> None:
        """Takes in the records of the assignment topic that have arrived."""
        self._tail.refresh()
        self._note()

    def catch_up(self) -> None:
        """Reads the assignment topic to its present end.

        Raises:
            ClusterUnreachable: The topic cannot be read.
        """
        self._tail.catch_up()
        self._note()

    def _note(self) -> None:
        self._restarting.note()
        self._liveness.note()

    @property
    def first_starts(self) -> Mapping[str, tuple[int, ...]]:
        """Start positions of topics some of whose partitions have no commit record yet, by source topic id."""
        return self._tail.state.starts

    @property
    def paused(self) -> Mapping[str, Pause]:
        """Paused source topics."""
        return self._tail.state.paused

    def ensure_not_lost(self, newest: int) -> None:
        """Refuses an assignment topic that was created anew.

        Generations are its offsets: in a new topic they would start again below the old ones.

        Args:
            newest: Highest generation in the commit topic.

        Raises:
            Refused: The highest generation lies behind the end of the assignment topic.
        """
        if newest < self._own[-1]:
            return
        self._tail.catch_up()
        if newest == self._own[-1] or newest >= self._tail.end:
            raise Refused(
                f"the assignment topic {self._pipeline.coordination.assignment.topic} was deleted and created anew: "
                f"this run would be generation {self._own[-1]}, but group {self._pipeline.group} has committed as "
                f"generation {newest}, and of two records the higher generation counts. To copy everything from the "
                "start, use a new group.id"
            )

    def elsewhere(
        self, partitions: Mapping[TopicPartition, str], mine: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, str]:
        """The partitions that other instances copy, or have released only to claim them again, each with the instance.

        Partitions in `mine` are elsewhere only if a generation above the newest own one has them: lower claims give
        way. For the others it must be above the oldest own one. Else two instances that begin at once, when a third
        one has gone, would each take as free what the other one gives up.

        Args:
            partitions: Source topic id of each partition.
            mine: Partitions that the newest own generation is to copy.
        """
        if not self._own:
            return {}
        held = {claim.what: claim.generation for claim in sorted(self._of_others(), key=lambda claim: claim.generation)}
        found: dict[TopicPartition, str] = {}
        for tp, topic_id in partitions.items():
            what = (topic_id, tp.partition)
            generation = held[what] if what in held else self._let_go_for_a_moment(what)
            if generation > self._own[-1 if tp in mine else 0]:
                found[tp] = self._tail.state.describe(generation)
        return found

    def _let_go_for_a_moment(self, what: tuple[str, int]) -> int:
        """The generation of the partition's last claim, if it is another instance's that will claim again; else -1."""
        generation, slot = self._tail.state.claimed.get(what, (-1, -1))
        if generation in self._own:
            return -1
        comes_back = self._restarting.comes_back(generation) or self._was_fenced((generation, slot))
        return generation if comes_back else -1

    def _was_fenced(self, owner: tuple[int, int]) -> bool:
        """Whether a slot that has lost its claim is still alive.

        A slot that reuses its transactional id fenced it, perhaps to copy other partitions; so it will claim again.
        """
        state = self._tail.state
        return owner in state.signs and owner[0] not in state.stops and self._liveness.is_alive(owner)

    def claimed_since(self, partitions: Mapping[TopicPartition, str]) -> set[TopicPartition]:
        """The partitions that generations above the newest own one have claimed, even if they have released them.

        Args:
            partitions: Source topic id of each partition.
        """
        claimed, own = self._tail.state.claimed, max(self._own, default=-1)
        return {tp for tp, topic_id in partitions.items() if claimed.get((topic_id, tp.partition), (-1, -1))[0] > own}

    def taken_over(self, partitions: Mapping[TopicPartition, str]) -> dict[TopicPartition, str]:
        """The partitions that newer continuous instances have claimed, even if they have released them, with these.

        A run with an end, or an override, takes partitions for a moment only.

        Args:
            partitions: Source topic id of each partition.
        """
        state = self._tail.state
        claimed = {tp: state.claimed.get((i, tp.partition), (-1, -1))[0] for tp, i in partitions.items()}
        return {
            tp: state.describe(generation)
            for tp, generation in claimed.items()
            if generation > max(self._own, default=-1)
            and (instance := state.instances.get(generation)) is not None
            and instance.continuous
        }

    @property
    def changing(self) -> bool:
        """Whether another instance is about to claim, or is ending and has not released all its partitions.

        An instance is ending if a stop record asks it to, or if one of its slots has released everything, as the slot
        of a run that has caught up does.
        """
        state = self._tail.state
        ending = state.stops | {generation for generation, _ in state.begun - state.signs.keys()}
        if any(claim.generation in ending for claim in self._of_others()):
            return True
        return any(self._restarting.will_claim(g) for g in state.instances if g not in self._own)

    def dead(self) -> frozenset[tuple[int, int]]:
        """Slots, by generation and number, that hold claims and will not release them themselves.

        These are the slots of earlier own generations, which have all ended, and slots of other instances without a
        heartbeat for `graceWindow`.
        """
        return frozenset(claim.owner for claim in self._tail.state.claims.values() if self._is_dead(claim))

    def left_behind(self, slots: int) -> set[str]:
        """The transactional ids that may be fenced before the newest own generation claims anything.

        These are the ids that its slots will initialise first anyway, and the ids of dead slots (see `dead`), without
        the ids that newer generations use.

        Args:
            slots: Number of slots of that generation.
        """
        pipeline, state, generation = self._pipeline, self._tail.state, self._own[-1]
        claims = state.claims.values()
        used = fencing_rules.ids_above(pipeline.group, generation, claims, state.instances)
        first = {fencing_rules.free_id(pipeline.name, pipeline.group, slot, slots, used) for slot in range(slots)}
        dead = {claim.transactional_id for claim in claims if self._is_dead(claim)}
        return (first | dead) - used

    def _of_others(self) -> Iterable[Claim]:
        claims = self._tail.state.claims.values()
        return [c for c in claims if c.generation not in self._own and self._liveness.is_alive(c.owner)]

    def _is_dead(self, claim: Claim) -> bool:
        if claim.generation in self._own:
            return claim.generation != self._own[-1]
        return not self._liveness.is_alive(claim.owner)
