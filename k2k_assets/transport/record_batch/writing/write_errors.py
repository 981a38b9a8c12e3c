"""What an error code in an answer of the target means for the copy."""

from __future__ import annotations

from k2k_assets.core.errors import NotAllowed
from k2k_assets.core.words import ACLS_HINT
from k2k_assets.transport.errors import Fenced, Forbidden, Restart, TimeoutTooLong, timeout_too_long
from k2k_assets.transport.record_batch.errors import error_text

COORDINATOR_ELSEWHERE = frozenset({14, 15, 16})
"""The coordinator is loading, not available, or another broker."""
CONCURRENT_TRANSACTIONS = 51
"""The transaction before this one is still being ended."""
REFUSALS = frozenset({10, 18, 32, 87})
"""Verdicts about records: too large, a batch too large, an invalid timestamp, an invalid record."""
NOT_TAKEN = frozenset({3, 5, 6, 19, CONCURRENT_TRANSACTIONS, 100})
"""The broker does not lead the partition, does not know it yet, or too few replicas are in sync; or the partition
cannot join yet, because the transaction before is still being ended. Only where the answer names no offset was nothing
written: a leader that is deposed while it waits for its replicas answers likewise."""
OUT_OF_ORDER = 45
"""Batches before it are missing."""
UNKNOWN_TOPIC = 3
NO_LEADER = 5
_TOPIC_AUTHORIZATION_FAILED = 29
_FENCED = frozenset({47, 49, 90})  # epoch, producer id, and by the coordinator
_NOT_ALLOWED = frozenset({31, 53})
_INVALID_TIMEOUT = 50


def error_of(code: int, step: str, topic: str | None = None, words: str = "") -> Exception:
    """The error to raise for a code that is not waited out.

    Args:
        code: The code.
        step: What was refused.
        topic: The topic that it is about, if it is about one.
        words: What the broker says about it, if anything.
    """
    text = f"{step}: {error_text(code, words)}"
    if code in _FENCED:
        return Fenced(text)
    if code == _INVALID_TIMEOUT:
        return TimeoutTooLong(timeout_too_long(None, None))
    if code == _TOPIC_AUTHORIZATION_FAILED:
        return Forbidden(f"target cluster: {step} is not allowed: {error_text(code)}. {ACLS_HINT}", topic)
    if code in _NOT_ALLOWED:
        return NotAllowed(f"target cluster: {step} is not allowed: {error_text(code)}. {ACLS_HINT}")
    return Restart(text)
