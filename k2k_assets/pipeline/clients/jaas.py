"""`sasl.jaas.config`: what Java's login module lines say.

No message of this module contains any part of the line: it holds a password.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<comment>//[^\n]*|/\*.*?\*/|\#[^\n]*)
      | "(?P<double>(?:[^"\\]|\\.)*)"
      | '(?P<single>(?:[^'\\]|\\.)*)'
      | (?P<mark>[=;])
      | (?P<word>[^\s=;"']+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_FLAGS = {"required", "requisite", "sufficient", "optional"}
PASSWORD_MODULES = frozenset({"PlainLoginModule", "ScramLoginModule"})
"""Those with a user name and a password."""


class JaasError(ValueError):
    """The line cannot be used. The message holds nothing of it."""


class LoginModule(NamedTuple):
    """A login module line.

    Attributes:
        name: Class name of the module, without its package.
        options: Its options.
    """

    name: str
    options: dict[str, str]


def parse_login_module(line: str) -> LoginModule:
    """Reads a login module line.

    The syntax is Java's: `<class> <flag> <option>=<value> ... ;`, values with or without quotes, backslash escapes
    inside quotes.

    Raises:
        JaasError: Several modules, or bad syntax.
    """
    tokens = _tokens(line)
    if len(tokens) < 2 or tokens[0][0] != "word" or tokens[1][1].lower() not in _FLAGS:
        raise JaasError('expected \'<login module> required username="..." password="...";\'')
    return LoginModule(tokens[0][1].rpartition(".")[2], _options(tokens[2:]))


def user_and_password(module: LoginModule) -> tuple[str, str]:
    """User name and password of a PLAIN or SCRAM login module.

    Raises:
        JaasError: It has none.
    """
    options = module.options
    if "username" not in options or "password" not in options:
        raise JaasError("expected username=... and password=... in the login module line")
    return options["username"], options["password"]


def _tokens(line: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at, text = 0, line.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise JaasError("a quote is not closed")
        at = match.end()
        kind = str(match.lastgroup)
        if kind in ("double", "single"):
            tokens.append(("text", re.sub(r"\\(.)", _unescape, match[kind], flags=re.DOTALL)))
        elif kind != "comment":
            tokens.append((kind, match[kind]))
    return tokens


def _unescape(match: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r"}.get(match[1], match[1])


def _options(tokens: list[tuple[str, str]]) -> dict[str, str]:
    """`name = value` triples up to the semicolon, which must be the end."""
    options: dict[str, str] = {}
    at = 0
    while at < len(tokens) and tokens[at] != ("mark", ";"):
        triple = tokens[at : at + 3]
        if len(triple) < 3 or triple[0][0] != "word" or triple[1] != ("mark", "=") or triple[2][0] == "mark":
            raise JaasError("expected name=value pairs after the flag, ended by ';'")
        options[triple[0][1]] = triple[2][1]
        at += 3
    if at + 1 < len(tokens):
        raise JaasError("expected one login module, ended by ';'")
    return options
