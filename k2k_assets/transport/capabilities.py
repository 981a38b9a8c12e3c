"""The capabilities that a transport declares; the conformance suite of the tests checks them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The differences between transports that their users have to know.

    Attributes:
        needs_decoding: Whether the sink writes record by record, so that each chunk has to be decoded. Otherwise only
            chunks are decoded that a stage looks into or changes.
        keeps_batches: Whether a record batch of the source stays one batch on the target, with its compression.
        reports_batches: Whether the records of a batch always lie one behind the other on the target, even if others
            write to the same partition; so do those of a chunk then, but for what comes between two of its batches.
            Otherwise records of others may lie between any two.
        knows_commit_outcome: Whether the transport can find out if a commit without an answer has succeeded, where the
            target gives each transaction an epoch of its own (`transaction.version` 2). Otherwise its sink raises
            `Restart`, and the next session reads the position from the target.
    """

    needs_decoding: bool
    keeps_batches: bool
    reports_batches: bool
    knows_commit_outcome: bool
