"""What other instances do with the partitions of a run, as its driver sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping

from k2k_assets.control.assignment_records import Claim, InstanceRecord
from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.coordination import fencing_rules
from k2k_assets.coordination.announce import announce
from k2k_assets.coordination.liveness import Liveness, heartbeat_timeout_seconds
from k2k_assets.coordination.restarting_peers import RestartingPeers
from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import Pipeline


class Peers:
    """Tells which partitions others copy, and when they have let go of them.

    An instance that begins takes over all that it is to copy: the newest one is right. Later it draws new generations
    only for what nobody else copies, else two instances would take partitions from each other for ever.

    Args:
        pipeline: Whose group.
        tail: The assignment topic.
        clock: Seconds that only rise.
    """

    def __init__(self, pipeline: Pipeline, tail: AssignmentTail, clock: Callable[[], float] = time.monotonic) -> None:
        self._pipeline = pipeline
        self._tail = tail
        self._own: list[int] = []
        self._restarting = RestartingPeers(tail.state, clock)
        self._liveness = Liveness(tail.state, heartbeat_timeout_seconds(pipeline), clock)

    def draw_generation(self, instance: InstanceRecord) -> int:
        """Announces this process, once more if it has been announced before; returns the new generation."""
        self._own.append(announce(self._pipeline, self._tail, instance))
        self._liveness.note()
        return self._own[-1]

    def claimed_by_newest(self, partitions: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
        """The partitions that slots of the newest own generation claimed last, each with the slot.

        Args:
            partitions: Source topic id of each partition.
        """
        own, claimed = max(self._own, default=-1), self._tail.state.claimed
        last = {tp: claimed.get((topic_id, tp.partition), (-1, -1)) for tp, topic_id in partitions.items()}
        return {tp: slot for tp, (generation, slot) in last.items() if generation == own >= 0}

    def refresh(self) -> None:
        """Takes in what was written to the assignment topic since."""
        self._tail.refresh()
        self._note()

    def catch_up(self) -> None:
        """Takes in all that the assignment topic holds now.

        Raises:
            ClusterUnreachable: It cannot be read.
        """
        self._tail.catch_up()
        self._note()

    def _note(self) -> None:
        self._restarting.note()
        self._liveness.note()

    @property
    def first_starts(self) -> Mapping[str, tuple[int, ...]]:
        """Where topics begin that were not begun to be copied in all partitions, by source topic id."""
        return self._tail.state.starts

    def ensure_not_lost(self, newest: int) -> None:
        """Generations are offsets of the assignment topic: after it was lost they would start again below the old ones.

        Args:
            newest: Highest generation in the commit topic.

        Raises:
            Refused: It lies where the assignment topic has not been yet.
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
        """The partitions that newer instances copy, or let go of only to claim them again, each with who that is.

        Of what the newest own generation is to copy, lower claims are not waited for: they give way to it. Else two
        instances that begin at once, when a third one has gone, would each take for free what the other one gives up.

        Args:
            partitions: Source topic id of each partition.
            mine: Those that the newest own generation is to copy.
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
        """The generation that claimed it last, if that was another instance's, and it or the next one will again."""
        generation, slot = self._tail.state.claimed.get(what, (-1, -1))
        if generation in self._own:
            return -1
        comes_back = self._restarting.comes_back(generation) or self._was_fenced((generation, slot))
        return generation if comes_back else -1

    def _was_fenced(self, owner: tuple[int, int]) -> bool:
        """Whether a slot that has lost its claim goes on: who has claimed its id copies other partitions, maybe."""
        state = self._tail.state
        return owner in state.signs and owner[0] not in state.stops and self._liveness.is_alive(owner)

    def claimed_since(self, partitions: Mapping[TopicPartition, str]) -> set[TopicPartition]:
        """The partitions that others have claimed since the newest own generation, also if they have released them.

        Args:
            partitions: Source topic id of each partition.
        """
        claimed, own = self._tail.state.claimed, max(self._own, default=-1)
        return {tp for tp, topic_id in partitions.items() if claimed.get((topic_id, tp.partition), (-1, -1))[0] > own}

    @property
    def changing(self) -> bool:
        """Whether another instance is about to claim, or ends and has not yet released all.

        It ends if it was asked to, or if one of its slots has released all: that of a run that has caught up.
        """
        state = self._tail.state
        ending = state.stops | {generation for generation, _ in state.begun - state.signs.keys()}
        if any(claim.generation in ending for claim in self._of_others()):
            return True
        return any(self._restarting.will_claim(g) for g in state.instances if g not in self._own)

    def dead(self) -> frozenset[tuple[int, int]]:
        """Slots, by generation and number, that claim something and will not release it themselves.

        Those of earlier own generations, which have all ended, and of others without a heartbeat for `graceWindow`.
        """
        return frozenset(claim.owner for claim in self._tail.state.claims.values() if self._is_dead(claim))

    def left_behind(self, slots: int) -> set[str]:
        """The transactional ids that may be fenced before the newest own generation claims anything.

        Those that its slots claim first of all anyway, and those of slots that are dead: of earlier own generations,
        and of others without a heartbeat for long. But none that somebody newer uses.

        Args:
            slots: Of that generation.
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
