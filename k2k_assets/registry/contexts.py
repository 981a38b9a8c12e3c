"""Contexts of Confluent's registry, each with subjects and ids of its own: pure.

A registry's URL may name one. Its answers name subjects with their context, and its questions may do without:

| URL | subject in an answer | in a question |
| --- | --- | --- |
| `https://registry` | `orders-value` | `orders-value` |
| `https://registry/contexts/.prod` | `:.prod:orders-value` | `orders-value` |

A subject with a context must not come from one registry to the other: it would be registered in a context there whose
ids mean other schemas wherever that context is not asked for.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

_IN_URL = re.compile(r"(?<!/)/contexts/([^/?#]+)/?$")
_BEGINNING = ":."


def context_of(url: str) -> str:
    """What subjects of the context begin with that a URL names, such as `:.prod:`; empty if it is the default one."""
    found = _IN_URL.search(url.strip())
    name = unquote(found[1]).strip(":").removeprefix(".") if found else ""
    return f"{_BEGINNING}{name}:" if name else ""


def subject_in(context: str, subject: str) -> str | None:
    """A subject without its context; None if that is another one.

    Args:
        context: As of `context_of`.
        subject: As a registry names it. Those that know no contexts, and the default context, name it without.
    """
    if context and subject.startswith(context):
        return subject.removeprefix(context)
    return None if subject.startswith(_BEGINNING) else subject
