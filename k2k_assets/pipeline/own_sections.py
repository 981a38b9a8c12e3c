"""The sections that K2K does not have: `spark`, `sync`, `index`. All are optional."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from k2k_assets.pipeline.values import Duration, PositiveDuration, Section, TextMap


class Spark(Section):
    """Where the copying runs."""

    master: str = Field(default="local[*]", min_length=1, description="Spark master.")
    remote: str | None = Field(default=None, repr=False, description="Spark Connect address; it replaces `master`.")
    config: TextMap = Field(default={}, repr=False, description="Spark configs.")


class Sync(Section):
    """How long a run lasts and how often it commits."""

    window: Duration = Field(default=timedelta(minutes=5), description="Longest run of a scheduled materialization.")
    idle: Duration = Field(default=timedelta(seconds=5), description="A run ends after this time without records.")
    min_commit_interval: Duration = Field(
        default=timedelta(milliseconds=5),
        description="Shortest time from one commit to the next while records trickle in. The interval follows what a "
        "commit costs: commits take half of the time at most. A longer one makes fewer transactions.",
    )
    metadata_interval: PositiveDuration = Field(
        default=timedelta(seconds=30),
        description="Time between two looks for new topics and partitions on the source, while `k2k start` runs.",
    )


class Index(Section):
    """The index of merged offset mappings."""

    path: str | None = Field(
        default=None,
        min_length=1,
        description="Folder of the index; drivers and executors must share it. Absent: `index/<pipeline>` in K2K_HOME.",
    )
    retention: PositiveDuration | None = Field(
        default=None,
        description="Mappings older than this leave the index, but for the newest of each partition. Absent: it keeps "
        "everything.",
    )
