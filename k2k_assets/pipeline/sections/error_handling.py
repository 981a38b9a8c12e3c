"""`errorHandling`: what to do about faults."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from k2k_assets.pipeline.sections.values import Section

Policy = Literal["fail", "ignore"]


class ErrorHandling(Section):
    """`fail` stops loudly; `ignore` continues, which under exactly-once means "keep waiting"."""

    on_commit_sync_timeout: Policy = Field(
        default="fail", description="The commit topic was not read to its end within `coordination.commit.syncTimeout`."
    )
    on_control_message_deserialization_error: Policy = Field(
        default="fail", description="A record of a control topic cannot be read."
    )
    on_foreign_writer: Policy | None = Field(
        default=None,
        description="Somebody else wrote to a target partition between our records. Absent: fail where one source "
        "partition feeds the target partition and the pipeline is not bidirectional, ignore elsewhere.",
    )
    on_active_consumer_group_commit: Policy = Field(
        default="fail",
        description="A group would be moved on the target while it has members there. `ignore` leaves it alone until "
        "they are gone.",
    )
    on_multiple_target_committed_offsets: Policy = Field(
        default="fail",
        description="Two pipelines that share the mapping topic have mapped the same source record. `ignore` uses "
        "the pipeline's own mapping.",
    )
