"""The sections that K2K does not have: `spark`, `sync`, `transport`, `index`. All are optional."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from k2k_assets.pipeline.sections.values import MAX_COUNT, Duration, PositiveDuration, Section, TextMap, fault

_SLOTS_SCHEMA: dict[str, Any] = {
    "anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": MAX_COUNT}],
}


def _slots(value: object) -> object:
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_COUNT):
        return value
    return fault("auto, or a whole number from 1")


Slots = Annotated[Literal["auto"] | int, BeforeValidator(_slots), WithJsonSchema(_SLOTS_SCHEMA)]
"""`auto`, or a whole number from 1."""


class Spark(Section):
    """Where the copying runs."""

    master: str = Field(default="local[*]", min_length=1, description="Spark master.")
    remote: str | None = Field(default=None, repr=False, description="Spark Connect address; it replaces `master`.")
    config: TextMap = Field(default={}, repr=False, description="Spark configs.")
    slots: Slots = Field(
        default="auto",
        description="Copy tasks (slots) that work at once. `auto`: as many as Spark has cores for, also when that "
        "changes while `k2k start` runs. A number means the same as `configuration.partitionParallelism`.",
    )


class Sync(Section):
    """How long a run lasts and how often it commits."""

    window: PositiveDuration = Field(
        default=timedelta(hours=1),
        description="How long a run of the sync job copies before the next one takes over, and the longest run of a "
        "materialization with `extent: window`.",
    )
    idle: Duration = Field(
        default=timedelta(seconds=5),
        description="A materialization with `extent: window` ends after this time without records.",
    )
    reports_per_day: int = Field(
        default=1800,
        ge=100,
        description="Events that the runs of the sync job report to Dagster in a day, over all topics: some 6 KB each "
        "in its database, on SQLite twice. The more topics and partitions move, the longer is the time between two "
        "reports; at least 30 seconds.",
    )
    min_commit_interval: Duration = Field(
        default=timedelta(milliseconds=5),
        description="Shortest time from one commit to the next while records trickle in. The interval follows what a "
        "commit costs: commits take two thirds of the time at most. A longer one makes fewer transactions.",
    )
    freshness: PositiveDuration | None = Field(
        default=None,
        description="Longest time for which a record may wait to be copied. In Dagster the check `keeps_up` of a topic "
        "fails while one waits longer; a topic to which nobody writes is never late. Absent: no such check.",
    )
    metadata_interval: PositiveDuration = Field(
        default=timedelta(seconds=30),
        description="Time between two looks for new topics and partitions on the source, while `k2k start` runs.",
    )


DEFAULT_FORM: Literal["auto", "batches", "records"] = "auto"
"""`transport.form` where the file does not say it."""


class TransportForm(Section):
    """How records are brought from the source to the target."""

    form: Literal["auto", "batches", "records"] = Field(
        default=DEFAULT_FORM,
        description="`auto`: whole record batches as the source has them, undecoded where nothing changes them, where "
        "the brokers and the settings allow that, and else record by record: see [batches.md](batches.md). `batches`: "
        "the same, but what goes by records is a warning in the log. `records`: record by record, by librdkafka.",
    )


class Index(Section):
    """The index of merged offset mappings."""

    interval: PositiveDuration = Field(
        default=timedelta(minutes=20),
        description="Time between two runs that bring the index up to date, while the replication sensor is on.",
    )
    path: str | None = Field(
        default=None,
        min_length=1,
        description="Folder of the index, which drivers and executors must share, or an address in an object store. "
        "Absent: `index/<pipeline>` in K2K_HOME.",
    )
    retention: PositiveDuration | None = Field(
        default=None,
        description="Mappings older than this leave the index, but for the newest of each partition. Absent: it keeps "
        "everything.",
    )


class Checks(Section):
    """The checks that go on beside the copy."""

    interval: PositiveDuration = Field(
        default=timedelta(minutes=10),
        description="Shortest time between two comparisons of a consumer group by content (`resumes_exactly`) in a run "
        "that moves groups, and between two looks at the settings of topics (`as_configured`) in a run that copies. "
        "A group that has not moved since it passed is not compared again.",
    )
