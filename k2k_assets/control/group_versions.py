"""Versions of observations: they decide which of two commits of a group was observed later on the source. Pure.

A commit of the mapper carries `<prefix><generation>.<poll>@<cluster>` as its metadata, such as
`k2k_1204.1758021130250@rJLnq9WvT0a4uQd2bX7y1g`:

- *generation*: the offset of the mapper's claim, raised above the highest generation that the target's groups hold.
  Mappers that follow each other have rising generations, over restarts and wherever they run.
- *poll*: rises with each poll of one mapper. It is the poll's time in milliseconds since the epoch, raised where the
  clock does not rise, so that a commit also shows its age. Polls of different generations are never compared by it.
- *cluster*: id of the source cluster. Where several clusters are copied into one topic, each of their mappers knows the
  group's position on its own source only. Older releases did not write it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

_VERSION = re.compile(r"(0|[1-9]\d{0,18})\.(0|[1-9]\d{0,18})(?:@(\S+))?", re.ASCII)


class Version(NamedTuple):
    """When a group's position was observed on the source; later observations compare as greater.

    Attributes:
        generation: Generation of the mapper.
        poll: Number of the poll.
        cluster: Id of the source cluster; empty if that is not known.
    """

    generation: int
    poll: int
    cluster: str = ""

    def metadata(self, prefix: str) -> str:
        """The commit metadata that carries this version."""
        observed_on = f"@{self.cluster}" if self.cluster else ""
        return f"{prefix}{self.generation}.{self.poll}{observed_on}"

    def is_of_another_cluster(self, cluster: str) -> bool:
        """Whether another source cluster than the given one was observed."""
        return bool(self.cluster and cluster) and self.cluster != cluster


@lru_cache(maxsize=1024)  # all commits of a poll carry the same text, and a hundred thousand commits are read
def parse(metadata: str | None, prefix: str) -> Version | None:
    """The version in a commit's metadata; None if a mapper with this prefix did not write it."""
    if not metadata or not metadata.startswith(prefix):
        return None
    match = _VERSION.fullmatch(metadata, len(prefix))
    return Version(int(match[1]), int(match[2]), match[3] or "") if match else None


def next_poll(previous: int, now: float | None = None) -> int:
    """The number of the poll after `previous`.

    Args:
        previous: The mapper's last poll; 0 before its first.
        now: Seconds since the epoch; None: the present time.
    """
    return max(previous + 1, int((time.time() if now is None else now) * 1000))


def generation_above(claim: int, versions: Iterable[Version]) -> int:
    """A mapper's generation: the offset of its claim, raised above all versions in the target groups.

    Offsets start again at zero when the assignment topic is created anew; the versions in the groups stay.
    """
    return max((claim, *(version.generation + 1 for version in versions)))
