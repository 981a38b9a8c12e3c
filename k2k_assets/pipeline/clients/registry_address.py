"""Where a registry answers, and the login that its addresses may hold: pure."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

# A comma may be in a password too.
_BETWEEN = re.compile(r"\s*,\s*(?=https?://)")
# A slash that nobody has encoded may be in it as well: the last @ counts.
_LOGIN = re.compile(r"(?<=://).*@", re.DOTALL)


class Address(NamedTuple):
    """An address that can be shown, and the login apart from it.

    Attributes:
        url: The address, or several with commas, without logins.
        login: `user:password` of the first address that has one; None if none has.
    """

    url: str
    login: str | None


def address_of(url: str) -> Address:
    """Takes the logins out of `schema.registry.url`, so that no message, stop reason or log line can hold them."""
    each = _BETWEEN.split(url)
    logins = [found[0].removesuffix("@") for one in each if (found := _LOGIN.search(one))]
    return Address(",".join(_LOGIN.sub("", one) for one in each), _decoded(logins[0]) if logins else None)


def is_address(url: str) -> bool:
    """Whether an HTTP client can ask there.

    Args:
        url: Without a login.
    """
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0  # to ask for a port that is none raises
    except ValueError:
        return False
    is_whole = parts.scheme in ("http", "https") and not parts.path.startswith("//")  # http://http://host
    return has_host and is_whole and url.isprintable() and " " not in url


def _decoded(login: str) -> str:
    user, _, password = login.partition(":")
    return f"{unquote(user)}:{unquote(password)}"
