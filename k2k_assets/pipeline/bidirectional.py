"""`bidirectional`: two pipelines, one each way, without echo. Read and checked; not built yet."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from k2k_assets.pipeline.tracing import HeaderName
from k2k_assets.pipeline.values import Section


class BidirectionalHeaders(Section):
    """The name of the marker."""

    bidirectional: HeaderName = Field(default="__k2k_bidirectional", description="Of the header that marks copies.")


class Bidirectional(Section):
    """How copies are known that would come back."""

    mode: Literal["pipeline", "cluster"] = Field(
        default="pipeline", description="What the marker holds: the pipeline's name, or the source cluster's id."
    )
    headers: BidirectionalHeaders = Field(default_factory=BidirectionalHeaders, description="The marker.")
