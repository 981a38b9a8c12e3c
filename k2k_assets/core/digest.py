"""A short text that stands for a long one."""

from __future__ import annotations

import hashlib


def digest(text: str) -> str:
    """Sixteen characters; different texts have different ones, for all that anybody will meet."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
