"""Compares every single record of a copy, by an id in each record, for the fault tests.

A source record has a header `id` that no other record has, committed or not. The judgement is pure: it looks at what
was read from both clusters, and says in words what is wrong. An empty list means that all is as promised.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.pipeline import Pipeline
from k2k_assets_tests.support.brokers.kafka import ReadRecord, read_all
from k2k_assets_tests.support.copies.copying import commit_records, mapping_records

ID = "id"
_SHOWN = 5


@dataclass(frozen=True)
class PartitionCopy:
    """One source partition and what became of it.

    Attributes:
        name: Topic and partition, for the words.
        source: Its committed records, by offset.
        target: Committed records of the target partition, by offset.
        commits: Its commit records.
        mappings: Its mapping records, in the order of their transactions.
        exactly_once: Whether nothing may be there twice; else only what lies behind the last commit, and in order.
        zombies: At least once: whether a superseded writer may have had records in its queue.
    """

    name: str
    source: Sequence[ReadRecord]
    target: Sequence[ReadRecord]
    commits: Sequence[CommitRecord]
    mappings: Sequence[MappingRecord]
    exactly_once: bool = True
    zombies: bool = False

    def problems(self) -> list[str]:
        """All that is wrong."""
        return [f"{self.name}: {words}" for words in (*self._content(), *self._repeats(), *self._mapping())]

    def _content(self) -> list[str]:
        at_source = {record_id(record): record for record in self.source}
        found = Counter(record_id(record) for record in self.target)
        known = [record for record in self.target if record_id(record) in at_source]
        firsts = list(dict.fromkeys(record_id(record) for record in known))
        offsets = [at_source[name].offset for name in firsts]
        words = [] if len(at_source) == len(self.source) else ["two source records carry one id"]
        words += _told("lost", (r.offset for r in self.source if record_id(r) not in found))
        words += _told(
            "never committed on the source", (r.offset for r in self.target if record_id(r) not in at_source)
        )
        words += _told("altered", (r.offset for r in known if r.content != at_source[record_id(r)].content))
        words += _told("reordered", (b for a, b in itertools.pairwise(offsets) if b < a))
        if self.exactly_once:
            words += _told("doubled", (at_source[name].offset for name in firsts if found[name] > 1))
        return words

    def _repeats(self) -> list[str]:
        """At least once: what comes again begins at the newest position that is committed by then, and is in order."""
        if self.exactly_once or self.zombies:
            return []
        offsets = [record.offset for record in self.source]
        following = dict(itertools.pairwise(offsets))
        source_offset = {record_id(record): record.offset for record in self.source}
        commits = sorted((m.targets[0].runs[-1].target_end, m.covered_to) for m in self.mappings if m.targets)
        committed = self.mappings[0].covered_from if self.mappings else 0
        before, astray = -1, []
        for record in self.target:
            while commits and commits[0][0] <= record.offset:
                committed = max(committed, commits.pop(0)[1])
            offset = source_offset.get(record_id(record))
            begins = next(iter(offsets[bisect_left(offsets, committed) :]), None)
            if offset is not None and offset not in (following.get(before), begins):
                astray.append(record.offset)
            before = offset if offset is not None else before
        return _told("neither behind the record before nor where the newest commit is", astray)

    def _mapping(self) -> list[str]:
        """Position, mapping and content are of one transaction: each says what the others say."""
        at_source = {record.offset: record_id(record) for record in self.source}
        at_target = {record.offset: record_id(record) for record in self.target}
        words: list[str] = []
        mapped: dict[int, int] = {}
        covered = self.mappings[0].covered_from if self.mappings else None
        for record in self.mappings:
            if record.covered_from != covered:
                words.append(f"coverage goes from {covered} to {record.covered_from}")
            covered = record.covered_to
            for run in (run for target in record.targets for run in target.runs):
                for i in range(run.count):
                    offset = run.source_start + i
                    if offset in mapped or not record.covered_from <= offset < record.covered_to:
                        words.append(f"source offset {offset} is mapped twice, or outside its range")
                    mapped[offset] = run.target_start + i
        rising = [mapped[offset] for offset in sorted(mapped)]
        words += _told("mapped out of order", (b for a, b in itertools.pairwise(rising) if b <= a))
        wrong = (s for s, t in mapped.items() if s not in at_source or at_source[s] != at_target.get(t))
        words += _told("mapped to another record", wrong)
        words += _told("torn: copied without a mapping", (o for o in at_source if o not in mapped))
        if self.exactly_once:
            words += _told("torn: on the target without a mapping", set(at_target) - set(mapped.values()))
        newest = max(self.commits, key=lambda record: record.order, default=None)
        if newest and covered is not None and newest.position != covered:
            words.append(f"torn: the newest commit record says {newest.position}, the mappings {covered}")
        if not newest and self.source:
            words.append("no commit record")
        return words


@dataclass
class Verdict:
    """What was compared.

    Attributes:
        records: Committed source records.
        copies: Records on the target.
        commits: Commit records.
        dead_letters: Records of topics for dead letters.
        problems: What is wrong, in words.
    """

    records: int = 0
    copies: int = 0
    commits: int = 0
    dead_letters: int = 0
    problems: list[str] = field(default_factory=list)

    def __add__(self, other: Verdict) -> Verdict:
        """What was compared in both."""
        return Verdict(
            self.records + other.records,
            self.copies + other.copies,
            self.commits + other.commits,
            self.dead_letters + other.dead_letters,
            [*self.problems, *other.problems],
        )


def verify(
    pipeline: Pipeline,
    source: str,
    target: str,
    topics: Iterable[str],
    zombies: bool = False,
    through: Callable[[Iterable[ReadRecord]], list[ReadRecord]] = list,
    is_copy: Callable[[ReadRecord], bool] = lambda record: True,
) -> Verdict:
    """Compares topics record by record, with the pipeline's commit records and mappings.

    Args:
        pipeline: One to one; all its records carry ids.
        source: Bootstrap address.
        target: Bootstrap address.
        topics: Source topics.
        zombies: See `PartitionCopy`.
        through: What the pipeline's stages make of records of the source.
        is_copy: Whether a record of the target is one; others were written there.
    """
    verdict = Verdict()
    controls = commit_records(pipeline, target), mapping_records(pipeline, target)
    for topic in topics:
        there = through(read_all(source, topic))
        copied = [record for record in read_all(target, pipeline.routing.target_topic(topic)) if is_copy(record)]
        verdict += _verify_topic(pipeline, topic, there, copied, *controls, zombies)
    return verdict


def verify_deleted(
    pipeline: Pipeline, target: str, topic: str, there: Sequence[ReadRecord], zombies: bool = False
) -> Verdict:
    """Compares a topic that was deleted on the source with what was copied of it: all before its committed positions.

    Args:
        pipeline: One to one.
        target: Bootstrap address.
        topic: The source topic.
        there: Its committed records when it was deleted.
        zombies: See `PartitionCopy`.
    """
    commits, mappings = commit_records(pipeline, target), mapping_records(pipeline, target)
    newest: dict[int, CommitRecord] = {}
    for record in sorted(commits, key=lambda record: record.order):
        if record.source.topic == topic:
            newest[record.source.partition] = record
    if not newest:
        return Verdict()
    copied = read_all(target, pipeline.routing.target_topic(topic))
    reached = [r for r in there if r.partition in newest and r.offset < newest[r.partition].position]
    if not pipeline.features.exactly_once:  # what was written and never committed
        beyond = {record_id(r) for r in there} - {record_id(r) for r in reached}
        copied = [r for r in copied if record_id(r) not in beyond]
    return _verify_topic(pipeline, topic, reached, copied, commits, mappings, zombies)


def _verify_topic(
    pipeline: Pipeline,
    topic: str,
    there: Sequence[ReadRecord],
    copied: Sequence[ReadRecord],
    commits: Sequence[CommitRecord],
    mappings: Sequence[MappingRecord],
    zombies: bool,
) -> Verdict:
    verdict = Verdict(len(there), len(copied))
    for partition in sorted({r.partition for r in (*there, *copied)}):
        copy = PartitionCopy(
            f"{topic}-{partition}",
            [r for r in there if r.partition == partition],
            [r for r in copied if r.partition == partition],
            [r for r in commits if (r.source.topic, r.source.partition) == (topic, partition)],
            [r for r in mappings if (r.topic, r.partition) == (topic, partition)],
            pipeline.features.exactly_once,
            zombies,
        )
        verdict.problems += copy.problems()
        verdict.commits += len(copy.commits)
    return verdict


def record_id(record: ReadRecord) -> bytes:
    """The id that a record carries."""
    return next((value or b"" for name, value in record.headers if name == ID), b"")


def _told(what: str, offsets: Iterable[int]) -> list[str]:
    found = sorted(offsets)
    if not found:
        return []
    shown = ", ".join(map(str, found[:_SHOWN])) + (", ..." if len(found) > _SHOWN else "")
    return [f"{len(found)} {what} (offsets {shown})"]
