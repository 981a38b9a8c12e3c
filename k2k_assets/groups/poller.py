"""One life of a mapper: reads the groups' positions on the source, and commits their translations on the target.

```
 mappings read to the end > claim > fence earlier mappers > generation above all versions in the target's groups
   poll:  no newer claim > mapped topics > groups and offsets on the source > cut: L, ends of the mapping topic,
          mappings read up to them > translate > commits of the target's groups > decide > fenced commit
```

A poll keeps nothing but the mappings: it compares with the target's commits, so the next poll sees whatever others
commit there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext

from k2k_assets.control.control_topics import ensure_control_topics
from k2k_assets.control.group_versions import Version, generation_above, next_poll, parse
from k2k_assets.core.bulk import without_cycle_collection
from k2k_assets.core.deadline import Deadline
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.groups.claim import MapperClaims
from k2k_assets.groups.committer import GroupCommitter
from k2k_assets.groups.decide import CommitDecision, GroupDecision, Rules, decide_group
from k2k_assets.groups.followed import Changed
from k2k_assets.groups.mapper_file import are_published, with_mappings
from k2k_assets.groups.policies import ensure_none_active
from k2k_assets.groups.position_translator import PositionTranslator, TranslatedGroups
from k2k_assets.groups.report import PollResult
from k2k_assets.groups.shard import CommitReport
from k2k_assets.groups.source_groups import SourceGroups, SourceObservation
from k2k_assets.groups.stuck_offsets import StuckOffsets
from k2k_assets.groups.target_groups import TargetGroups, TargetObservation
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.permissions.group_check import missing_on_groups
from k2k_assets.permissions.missing import refuse
from k2k_assets.permissions.topic_check import TopicCheck
from k2k_assets.pipeline import Pipeline
from k2k_assets.pipeline.sections.group_selection import GroupSelection

log = logging.getLogger("k2k.groups")

# Commits are renewed after so many seconds: brokers delete offsets of groups without members some days after their
# commit (7 by default).
RENEW_SECONDS = 12 * 3600
_VISIBLE_PAUSE = 0.02


class Poller:
    """One life of a mapper. Only one thread at a time may use it.

    Args:
        pipeline: The pipeline.
        source: The source cluster, which is only read.
        target: The target cluster.
        patience: Give up after so many seconds without a mapping record.
        alive: Writes heartbeats; entered as soon as the control topics exist.
        held_back: Called right before each commit: returns why the groups are held back, or an empty text.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        source: Cluster,
        target: Cluster,
        patience: float = 30.0,
        alive: AbstractContextManager[object] | None = None,
        held_back: Callable[[], str] = str,
    ) -> None:
        self._pipeline = pipeline
        self._source = source
        self._target = target
        self._patience = patience
        self._alive = alive or nullcontext()
        self._held_back = held_back
        self._policies = pipeline.error_handling
        self._source_groups = SourceGroups(source, GroupSelection(pipeline.groups.consumer_groups))
        self._target_groups = TargetGroups(target)
        self._stuck = StuckOffsets()
        self._generation = -1
        self._poll = 0
        self._stack = ExitStack()
        self._translator: PositionTranslator
        self._claims: MapperClaims | None = None
        self._committer: GroupCommitter | None = None

    def start(self) -> None:
        """Reads the mappings to the end, then takes over from an earlier mapper.

        Raises:
            ClusterUnreachable: A cluster does not answer.
            Refused: A control topic or a permission is missing, or a cluster refuses.
            Superseded: A newer mapper came meanwhile.
        """
        self._read_mappings()
        self._claims = self._stack.enter_context(MapperClaims(self._pipeline, self._target))
        claim = self._claims.write()
        self._committer = self._stack.enter_context(
            GroupCommitter(self._pipeline, self._target_groups, self._claims.ensure_newest)
        )
        self._committer.claim(self._claims.rivals())
        self._generation = generation_above(claim, self._target_groups.committed_versions(self._prefix))
        self._claims.forget_older()
        log.info("offset mapper of pipeline %s: claim %d, generation %d", self._pipeline.name, claim, self._generation)

    def begin_read_only(self) -> None:
        """Reads the mappings to the end without taking over from a mapper; then polls commit nothing.

        Raises:
            ClusterUnreachable: A cluster does not answer.
            Refused: A control topic or a permission is missing, or a cluster refuses.
        """
        self._read_mappings()
        versions = self._target_groups.committed_versions(self._prefix)
        # Commits that are on the target now count as older than the first poll; later ones count as newer.
        self._generation = max((version.generation for version in versions), default=0)

    def _read_mappings(self) -> None:
        clusters = self._pipeline, self._source, self._target
        permissions = TopicCheck(*clusters, "mapper")
        refuse([*permissions.before_creation(), *missing_on_groups(*clusters, "mapper")])
        self._create_control_topics()
        refuse(permissions.after_creation())
        if self._target.describe([self._pipeline.coordination.assignment.topic]):
            self._stack.enter_context(self._alive)
        # An earlier mapper goes on while this one reads the mappings, which may take long.
        self._translator = self._stack.enter_context(
            PositionTranslator(
                *clusters, self._patience, lambda *on: TopicCheck(*clusters, "mapper", *on).ensure_existing()
            )
        )

    @without_cycle_collection()
    def poll(self) -> PollResult:
        """Reads all groups once, translates, decides, and commits.

        Raises:
            Superseded: A newer mapper has taken over.
            ActiveGroup: A group to move has members on the target, and the policy says fail.
            MultipleMappings: Two pipelines' mappings contradict each other, and the policy says fail.
            ClusterUnreachable: A cluster does not answer; the next poll may find it again.
            Refused: A cluster refuses.
        """
        started = time.monotonic()
        if self._claims:
            self._claims.ensure_newest()  # a poll without commits would not notice that it is fenced
        self._poll = next_poll(self._poll)
        version = Version(self._generation, self._poll, self._translator.source_cluster)
        seen, found = self._look()
        observed = self._target_groups.observe(list(found.answers))
        decisions = self._decide(found, observed, version)
        self._look_at_versions(decisions)
        held_back = self._held_back()
        report = CommitReport()
        if self._committer and not held_back:
            report = self._committer.commit(decisions, version)
            self._release(self._committer, observed, report)
        ensure_none_active(decisions, self._policies.on_active_consumer_group_commit, report.active)
        return PollResult(
            version=version,
            decisions={decision.group: decision for decision in decisions},
            committed=frozenset(report.committed),
            active=frozenset(report.active),
            failed={**seen.failed, **observed.failed, **report.failed},
            not_handled=seen.not_handled,
            absent=seen.absent,
            without_commits=sum(group not in seen.groups and group not in seen.failed for group in seen.states),
            source_ends=found.source_ends,
            target_ends=found.target_ends,
            offline_partitions=found.offline_partitions,
            held_back=held_back,
            unproven=found.unproven,
            repeated_back=found.repeated_back,
            seconds=time.monotonic() - started,
            mapped_ends=found.mapped_ends,
            records_read=found.records_read,
        )

    def await_visible(self, result: PollResult, timeout: float = 10.0) -> None:
        """Waits until readers see the commits of a poll, which takes a moment after the end of the transaction.

        Raises:
            ClusterUnreachable: The target does not answer.
        """
        wanted = {group: result.decisions[group].commits for group in result.committed if group in result.decisions}
        deadline = Deadline(timeout)
        while wanted and not deadline.expired():
            seen = self._target_groups.observe(list(wanted))
            wanted = {group: commits for group, commits in wanted.items() if not _holds(seen, group, commits)}
            if wanted:
                time.sleep(_VISIBLE_PAUSE)

    def close(self) -> None:
        """Closes all clients."""
        self._stack.close()

    def __enter__(self) -> Poller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _prefix(self) -> str:
        return self._pipeline.groups.offset_guard_prefix

    def _create_control_topics(self) -> None:
        """Creates missing control topics, for a mapper that starts first (`features.autoCreateControlTopics`)."""
        mappings, claims = self._pipeline.offset_mapping.topic, self._pipeline.coordination.assignment.topic
        found = self._target.describe([mappings, claims])
        may_create = self._pipeline.features.auto_create_control_topics and are_published(self._pipeline)
        if mappings not in found and not may_create:
            return  # the readers of the topics raise the error that says what to do
        if {mappings, claims} - found.keys():
            ensure_control_topics(with_mappings(self._pipeline), self._target)

    def _look(self) -> tuple[SourceObservation, TranslatedGroups]:
        deadline = Deadline(self._patience)
        while True:
            seen = self._source_groups.observe(self._translator.refresh())
            try:
                return seen, self._translator.translate(seen.groups)
            except Changed as change:
                if deadline.expired():
                    raise
                log.info("the groups are looked at again: %s", change)

    def _decide(self, found: TranslatedGroups, seen: TargetObservation, version: Version) -> list[GroupDecision]:
        rules = Rules(
            version,
            self._prefix,
            # A look without a claim compares offsets only: it shows groups whatever version another mapper has written.
            self._claims is not None and self._pipeline.features.mappings_guard,
            self._pipeline.groups.on_foreign_target_commit,
            renew_before=version.poll - RENEW_SECONDS * 1000,
            not_begun=found.not_begun,
        )
        return [
            decide_group(group, answers, seen.groups[group].offsets, found.target_ends, rules, seen.states.get(group))
            for group, answers in found.answers.items()
            if group not in seen.failed
        ]

    def _release(self, committer: GroupCommitter, seen: TargetObservation, report: CommitReport) -> None:
        pending = {name: min(group.unstable) for name, group in seen.groups.items() if group.unstable} | report.pending
        tried = committer.release({name: pending[name] for name in self._stuck.overdue(pending)})
        self._stuck.note_tried(tried)

    def _look_at_versions(self, decisions: Iterable[GroupDecision]) -> None:
        """Raises the generation if groups have commits of a later one.

        These are a newer mapper's, which ends this one; or they are from before the assignment topic was lost.
        """
        later = [
            row.on_target
            for decision in decisions
            for row in decision.rows
            if row.decision is CommitDecision.OLDER and row.on_target
        ]
        if not later or not self._claims:
            return
        self._claims.ensure_newest()
        versions = (parse(on_target.metadata, self._prefix) for on_target in later)
        self._generation = generation_above(self._generation, (version for version in versions if version))
        log.warning("groups hold commits of a later generation: going on as generation %d", self._generation)


def _holds(seen: TargetObservation, group: str, commits: Mapping[TopicPartition, int]) -> bool:
    offsets = seen.groups[group].offsets if group in seen.groups else {}
    return all(tp in offsets and offsets[tp].offset == offset for tp, offset in commits.items())
