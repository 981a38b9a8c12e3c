"""Compares consumer groups where both sides are written: by the records that both logs hold, not by translations.

Pure, as `verifying` is. A record is known by the side where it was written, and its id there. A group that stands at S
on one side has read every record of which that side holds a copy below S, or the record itself.

```
 read on   a0 a1 b0' a2 | b1'          a: written there, b: written on the other side, ': copies
 goes on   a0' a1' b0 a2' b1           at 3 on the one side a group has read a0, a1, b0: it goes on at a2' here
```
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from k2k_assets.control.mapping_records import MappingRecord
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets_tests.support.brokers.kafka import ReadRecord
from k2k_assets_tests.support.proof.verifying import record_id

_SHOWN = 5
_NOWHERE = 2**62
Name = tuple[bool, bytes]


class Said(NamedTuple):
    """What the product says of one position.

    Attributes:
        position: On the side where the group has read.
        offset: Where it goes on; None if the product does not know.
        state: As people read it.
        again: Number of records that it reads again.
    """

    position: int
    offset: int | None
    state: str
    again: int


@dataclass(frozen=True)
class SharedCopies:
    """The records of a partition that is written on both sides, each once.

    Attributes:
        end: Behind the last record on the groups' side.
        read_at: Where groups have read each record, rising: the least offset of it and its copies.
        least_last: By index likewise: the least of the last offsets, on the other side, of this record and all behind.
        mapped_read: Where each record lies on the groups' side, as mappings or its own offset say; rising.
        mapped_there: Where it lies on the other side, likewise; in the order of `mapped_read`.
    """

    end: int
    read_at: Sequence[int]
    least_last: Sequence[int]
    mapped_read: NDArray[np.int64]
    mapped_there: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        here: Sequence[ReadRecord],
        there: Sequence[ReadRecord],
        is_copy: Callable[[ReadRecord], bool],
        mappings: tuple[Iterable[MappingRecord], Iterable[MappingRecord]],
        left_out: Callable[[ReadRecord], bool] = lambda record: False,
    ) -> SharedCopies:
        """From all committed records of both partitions.

        Args:
            here: Where groups read.
            there: Where they go on.
            is_copy: Whether a record was copied to where it lies.
            mappings: The mapping records of the pipeline from here to there, and of the one back.
            left_out: Whether a record that was written there is never copied: then nobody waits for it.
        """
        first = {_name(r, is_copy(r)): r.offset for r in reversed(here)}
        wanted = [r for r in there if is_copy(r) or not left_out(r)]
        last = {_name(r, not is_copy(r)): r.offset for r in wanted}
        read = sorted((first.get(name, _NOWHERE), at) for name, at in last.items())
        behind = list(accumulate((at for _, at in reversed(read)), min))
        forth, back = map(_pairs, mappings)
        mapped = [(r.offset, forth[r.offset]) for r in here if not is_copy(r) and r.offset in forth]
        mapped += [(back.get(r.offset, _NOWHERE), r.offset) for r in wanted if not is_copy(r)]
        columns = np.array(sorted(mapped), dtype=np.int64).reshape(-1, 2)
        end = here[-1].offset + 1 if here else 0
        return cls(end, [at for at, _ in read], behind[::-1], columns[:, 0], columns[:, 1])

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that a group could read on the other side."""
        return not self.read_at

    def skips(self, position: int, answer: int) -> bool:
        """Whether a record that a group at `position` has not read lies before `answer` only."""
        index = bisect_left(self.read_at, position)
        return index < len(self.read_at) and self.least_last[index] < answer

    def repeats(self, position: int, answer: int) -> bool:
        """Whether a group at `position` reads a record again that lies before the first one that it has not read."""
        read = self.mapped_read < position
        unread = int(self.mapped_there[~read].min(initial=_NOWHERE))
        return bool(np.any(read & (self.mapped_there >= answer) & (self.mapped_there < unread)))

    def again(self, position: int, answer: int) -> int:
        """How many records a group at `position` reads for a second time, counted by mapped copies."""
        return int(np.count_nonzero((self.mapped_read < position) & (self.mapped_there >= answer)))

    def untrue(self, said: Iterable[Said], exactly_once: bool) -> list[str]:
        """Answers of the product that are not as the logs say, once both directions have copied all.

        Args:
            said: Its answers.
            exactly_once: Whether nothing is copied twice; else records may be read again that no mapping counts.
        """
        wrong = ((answer, self._fault(answer, exactly_once)) for answer in said)
        found = [
            f"at {a.position} it says {a.offset} ({a.state}, {a.again} again): {fault}" for a, fault in wrong if fault
        ]
        return [*found[:_SHOWN], *([f"... {len(found)} answers in all"] if len(found) > _SHOWN else [])]

    def _fault(self, said: Said, exactly_once: bool) -> str:
        if said.offset is None:
            return "no answer"
        if self.skips(said.position, said.offset):
            return "records are skipped"
        again = self.again(said.position, said.offset)
        if said.state == "exact" and again:
            return f"{again} records are read again"
        if again > said.again or (exactly_once and again != said.again):
            return f"{again} records are read again"
        if said.state not in ("exact", "may be read again"):
            return "all was copied"
        return "records are read again without need" if self.repeats(said.position, said.offset) else ""


def _name(record: ReadRecord, written_there: bool) -> Name:
    return written_there, record_id(record)


def _pairs(mappings: Iterable[MappingRecord]) -> dict[int, int]:
    return {
        run.source_start + i: run.target_start + i
        for record in mappings
        for part in record.targets
        for run in part.runs
        for i in range(run.count)
    }


def of_partition(mappings: Iterable[MappingRecord], partition: TopicPartition) -> list[MappingRecord]:
    """The mapping records of one source partition."""
    return [record for record in mappings if (record.topic, record.partition) == partition]
