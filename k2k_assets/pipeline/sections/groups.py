"""`groups`: which consumer groups are translated, how often, and what happens to foreign commits."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from k2k_assets.pipeline.java_regex import RegexError, compile_java
from k2k_assets.pipeline.sections.values import PositiveDuration, Section, fault


def _groups(value: object) -> object:
    if isinstance(value, str):
        try:
            compile_java(value)
        except RegexError as error:
            fault(f"a regular expression ({error})")
        return value
    if not isinstance(value, list | tuple) or not value:
        fault("one regular expression, or a list of group names")
    for position, name in enumerate(value):
        if not isinstance(name, str) or not name:
            fault("a group name", at=(position,))
    return tuple(dict.fromkeys(value))


class Groups(Section):
    """Consumer groups whose positions are translated (`k2k-offset-mapping` and the `consumer_groups` assets)."""

    poll_interval: PositiveDuration = Field(
        default=timedelta(seconds=5), description="Time between two polls of the source's groups."
    )
    consumer_groups: Annotated[str | tuple[str, ...], BeforeValidator(_groups)] = Field(
        default=".*",
        description="Which groups: one regular expression (Java's, matched against the whole name) or a list of exact "
        "names. Only groups with a commit on a mapped topic are translated.",
    )
    offset_guard_prefix: str = Field(
        default="k2k_",
        min_length=1,
        max_length=200,
        description="Text before the version in the metadata of our commits. Two-way pipelines must share it.",
    )
    on_foreign_target_commit: Literal["skip", "overwrite"] = Field(
        default="skip",
        description="What to do when the target's group has a foreign commit: `skip` leaves it alone and reports it, "
        "`overwrite` replaces it. Our own.",
    )
    reports_per_day: int = Field(
        default=450,
        ge=100,
        description="Events per day in which runs that move groups report the groups' positions to Dagster. An event "
        "takes some 15 KB in its database for nine partitions. The more groups move, the longer is the time between "
        "two reports; it is at least 30 seconds. Our own.",
    )
