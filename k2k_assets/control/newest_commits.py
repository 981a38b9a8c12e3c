"""The newest commit record of each source partition: the fold of the commit topic. Pure.

Of two records of one group the one with the higher (generation, sequence) is newer, whatever their offsets and the
order of reading; two records with the same are one record, written twice. The generations of two groups cannot be
compared: of two groups' records, the one with the later time of its writer is newer.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from k2k_assets.control.commit_record import CommitRecord

P = TypeVar("P", bound=Hashable)


class NewestCommits(Generic[P]):
    """Takes in commit records, in any order and more than once.

    Attributes:
        records: The newest record of each partition.
    """

    def __init__(self) -> None:
        self.records: dict[P, CommitRecord] = {}
        self._by_group: dict[P, dict[str, CommitRecord]] = {}

    def take(self, partition: P, record: CommitRecord) -> bool:
        """Takes in a record; returns whether it is new, and the newest of its partition.

        Args:
            partition: The caller's key for the source partition.
            record: A commit record of it.
        """
        of_groups = self._by_group.setdefault(partition, {})
        known = of_groups.get(record.group)
        if known is not None and record.order <= known.order:
            return False
        of_groups[record.group] = record
        self.records[partition] = _written_last(of_groups)
        return self.records[partition] is record

    def pass_over(self, partition: P) -> None:
        """Notes that a record of a partition cannot be read: the known ones may not be the newest."""
        of_groups = {group: record.maybe_old() for group, record in self._by_group[partition].items()}
        self._by_group[partition], self.records[partition] = of_groups, _written_last(of_groups)

    def of_group(self, partition: P, group: str) -> CommitRecord | None:
        """The newest record of a partition by one group; None if there is none."""
        return self._by_group.get(partition, {}).get(group)


def _written_last(of_groups: Mapping[str, CommitRecord]) -> CommitRecord:
    return max(of_groups.values(), key=lambda record: (record.time, record.group))
