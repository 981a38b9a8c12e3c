"""What a transport can do, as it declares it; the conformance suite of the tests holds it to that."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What differs between transports, for who uses one.

    Attributes:
        needs_decoding: Whether the sink writes record by record, so that each chunk has to be decoded. Otherwise only
            those are that a stage looks into or changes.
        keeps_batches: Whether a record batch of the source is one batch on the target too, compressed as it was.
        reports_batches: Whether the target offsets of a chunk are one stretch, also where others write to the same
            partition. Otherwise each record may lie anywhere there.
        knows_commit_outcome: Whether a commit whose answer was lost is known to have succeeded or failed. Otherwise
            the sink raises `Restart`, and the next session reads what the target holds.
    """

    needs_decoding: bool
    keeps_batches: bool
    reports_batches: bool
    knows_commit_outcome: bool
