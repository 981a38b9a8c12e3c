"""`bidirectional`: pipelines in both directions, or in a ring, without echo.

```
 mode      a copy is marked with       dropped are records with a marker that holds
 pipeline  the pipeline's name         the pipeline's name: all pipelines that belong together have the same one
 cluster   the source cluster's id     the target cluster's id: the record was there before
```

A record keeps the markers that it has, and gets one more with each copy.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field

from k2k_assets.pipeline.sections.added_headers import AddedHeader
from k2k_assets.pipeline.sections.tracing import HeaderName
from k2k_assets.pipeline.sections.values import Section, TopicName

Mode = Literal["pipeline", "cluster"]

RULE = "marker"
"""Name of the rule by which echoes are left out, in mapping records."""


class BidirectionalHeaders(Section):
    """The name of the marker."""

    bidirectional: HeaderName = Field(default="__k2k_bidirectional", description="Of the header that marks copies.")


class ReverseTopics(Section):
    """The control topics of the reverse pipeline, which lie on the source cluster."""

    mapping_topic: TopicName | None = Field(
        default=None, description="Its `offsetMapping.topic`. Absent: the same as in this file."
    )
    commit_topic: TopicName | None = Field(
        default=None, description="Its `coordination.commit.topic`. Absent: the same as in this file."
    )


class Bidirectional(Section):
    """How copies are known that would come back."""

    mode: Mode = Field(
        default="pipeline",
        description="What the marker holds, and which records are dropped: `pipeline`, the pipeline's name, and those "
        "with this name; `cluster`, the source cluster's id, and those with the target cluster's id. Both pipelines "
        "have the same mode, and with `pipeline` the same `name`.",
    )
    headers: BidirectionalHeaders = Field(default_factory=BidirectionalHeaders, description="The marker.")
    reverse: ReverseTopics = Field(
        default_factory=ReverseTopics,
        description="Where the reverse pipeline writes its offset mappings, on the source cluster. By them and by its "
        "own ones this pipeline translates groups exactly. Our own.",
    )


class Marker(NamedTuple):
    """The marker of a pipeline.

    Attributes:
        header: Name of the header.
        mode: What it holds.
        pipeline: Name of the pipeline; empty in `cluster` mode.
    """

    header: str
    mode: Mode
    pipeline: str = ""

    def of_copies(self, source_cluster: str) -> AddedHeader:
        """The header that each copy gets.

        Args:
            source_cluster: Source cluster id.
        """
        return AddedHeader(self.header, "text", self.pipeline if self.mode == "pipeline" else source_cluster)

    def of_echoes(self, target_cluster: str) -> tuple[str, bytes]:
        """The header by which a record is known that must not be copied: its name and value.

        Args:
            target_cluster: Target cluster id.

        Raises:
            ValueError: The id is needed, and empty: then no echo would be known.
        """
        if self.mode == "cluster" and not target_cluster:
            raise ValueError("the id of the target cluster is not known")
        return self.header, (self.pipeline if self.mode == "pipeline" else target_cluster).encode()

    @classmethod
    def parse(cls, found: object) -> Marker | None:
        """Reads a marker from a JSON list; None if a newer release wrote it."""
        match found:
            case [str(header), "pipeline" | "cluster" as mode, str(pipeline)]:
                return cls(header, mode, pipeline)
        return None
