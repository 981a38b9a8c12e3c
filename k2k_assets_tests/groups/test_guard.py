"""A model of the guard: mappers start, freeze and overlap in any order, while groups on the source move and rewind.

Two properties hold in any order: an older observation never replaces a newer one; and once the newest
mapper has finished a poll, the target has the positions of that poll.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from k2k_assets.control.group_versions import Version, generation_above, next_poll, parse
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.decide import GroupDecision, Rules, decide_group
from k2k_assets.kafka.groups import CommittedOffset, Ends
from k2k_assets.mapping.algebra.translate import TranslationState
from k2k_assets.translation.groups import Answer
from k2k_assets_tests.support.suite.properties import examples

TP = TopicPartition("t", 0)
PREFIX = "k2k_"


@dataclass
class Mapper:
    """One mapper: what it saw last, and what it is about to do."""

    claim: int
    generation: int
    clock: float
    poll: int = 0
    seen: tuple[int, int] | None = None  # when, and the position
    decision: GroupDecision | None = None


class Guarded(RuleBasedStateMachine):
    """Source, target, and mappers whose steps interleave."""

    mappers: Bundle[Mapper] = Bundle("mappers")

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.position = 0
        self.claims = 0
        self.newest_claim = -1
        self.held: CommittedOffset | None = None
        self.held_seen = -1  # time of the newest observation that agrees with the committed offset

    @rule(position=st.integers(0, 5))
    def move_the_source(self, position: int) -> None:
        self.now += 1
        self.position = position

    @rule(target=mappers, clock=st.floats(0, 10), lost=st.booleans())
    def start_a_mapper(self, clock: float, lost: bool) -> Mapper:
        """Claims (so fences all others), and only then reads what is held. The claims topic may have been lost."""
        self.newest_claim += 1
        self.claims = 0 if lost else self.claims + 1
        versions = {v for v in [parse(self.held.metadata, PREFIX)] if v} if self.held else set()
        return Mapper(self.newest_claim, generation_above(self.claims, versions), clock)

    @rule(mapper=mappers)
    def poll(self, mapper: Mapper) -> None:
        self.now += 1
        mapper.seen = (self.now, self.position)
        mapper.poll = next_poll(mapper.poll, mapper.clock)
        mapper.decision = None

    @rule(mapper=mappers)
    def look_at_the_target(self, mapper: Mapper) -> None:
        if mapper.seen is None:
            return
        answer = Answer(TP, mapper.seen[1], TranslationState.EXACT, ((TP, CommittedOffset(mapper.seen[1])),))
        held = {TP: self.held} if self.held else {}
        rules = Rules(Version(mapper.generation, mapper.poll), PREFIX)
        mapper.decision = decide_group("g", [answer], held, {TP: Ends(0, 9)}, rules)

    @rule(mapper=mappers)
    def commit(self, mapper: Mapper) -> None:
        if mapper.decision is None or mapper.seen is None:
            return
        decision, (seen, position) = mapper.decision, mapper.seen
        mapper.decision = mapper.seen = None
        newest = mapper.claim == self.newest_claim
        if TP in decision.commits and newest:  # any other is refused by the broker
            assert seen >= self.held_seen, "an older observation replaced a newer one"
            self.held = CommittedOffset(position, Version(mapper.generation, mapper.poll).metadata(PREFIX))
        if newest:
            assert self.held is not None
            assert self.held.offset == position, "a poll of the newest mapper did not arrive"
            self.held_seen = max(self.held_seen, seen)

    @invariant()
    def what_is_held_is_ours(self) -> None:
        assert self.held is None or parse(self.held.metadata, PREFIX)


TestGuarded = Guarded.TestCase
TestGuarded.settings = examples(50, stateful_step_count=30)


def test_without_fencing_the_guard_alone_keeps_older_observations_off() -> None:
    """Two mappers that fence nobody: whoever looks at the target later sees the version of the other."""
    older, newer = Version(1, 500), Version(2, 3)
    answers = {
        v: [Answer(TP, p, TranslationState.EXACT, ((TP, CommittedOffset(p)),))] for v, p in ((older, 50), (newer, 40))
    }
    held: dict[TopicPartition, CommittedOffset] = {}
    for version in (newer, older, newer):
        decision = decide_group("g", answers[version], held, {TP: Ends(0, 99)}, Rules(version, PREFIX))
        held.update({tp: CommittedOffset(offset, version.metadata(PREFIX)) for tp, offset in decision.commits.items()})
        assert held[TP] == CommittedOffset(40, "k2k_2.3")
