"""The escape that turns any name into `[A-Za-z0-9_]` without two names ever becoming one.

An underscore is doubled; a dot is `_dot_`, a dash `_dash_`, anything else `_x<hex code point>_`. Read from left
to right, every underscore starts exactly one of these, so the original can be read back: the escape is injective.
A single underscore followed by another word (`_topic_`) never comes out of it and may serve as a separator.
"""

from __future__ import annotations

import re

_WORDS = {"_": "__", ".": "_dot_", "-": "_dash_"}
_PLAIN = re.compile(r"[A-Za-z0-9]")


def escape(name: str) -> str:
    """`name` in letters, digits and underscores only; different names stay different."""
    return "".join(c if _PLAIN.match(c) else _WORDS.get(c, f"_x{ord(c):x}_") for c in name)
