"""Variables in a pipeline file: `${loader:mapper(s):NAME}`, replaced when the file is read.

A token replaces each variable in the text of the file. The document reader replaces the token in its scalar by the
value. So no value can change the structure of the file, close a quote or become a comment, and every scalar knows its
variable, so that no message shows the value. Only `raw` inserts its text into the file itself, as YAML; everything on
those lines counts as the value of a variable.

A variable without a value is a fault only where it is used. It is none in a comment, in a section that is not checked,
or where a later file replaces the value.
"""

from __future__ import annotations

import re
import secrets
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from k2k_assets.pipeline.parsing.problems import DocumentError, Problem, shorten
from k2k_assets.pipeline.parsing.variables import MAX_VALUE_BYTES, Variable, load

MAX_VARIABLES = 10_000

_OPENING = re.compile(r"\$\$\{|\$\{")
_CLOSING = re.compile(r"[}\n]")
_NEVER_INSIDE = re.compile(r"""["']|\$\{|^(?!file:).*[\s,]|,\s*[\w.-]+\s*:\s""")
_COMMENT = re.compile(r"(^|\s)#")
_NOT_CLOSED = "a variable is opened by `${` and not closed on the same line; write `$${` for a plain `${`"
_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")  # line breaks in YAML


def escaped(text: str) -> str:
    """A value for a pipeline file, with each `${` escaped."""
    return text.replace("${", "$${")


class Shift(NamedTuple):
    """A column from which the columns of a line differ from the file's.

    Attributes:
        column: Column in the text, from 1.
        of_file: Column of the same place in the file.
        is_raw: Whether raw text begins there; all of it has one place in the file.
    """

    column: int
    of_file: int
    is_raw: bool = False


@dataclass(frozen=True)
class Template:
    """A file's text, ready to be parsed.

    Attributes:
        text: The text, with a token for each variable.
        tokens: The variables by their tokens.
        token: Matches any token.
        lines: The file's line of each line of `text`; empty unless raw text added lines.
        shifts: Columns at which a line of `text` differs from the file, by line.
        raw: The raw variable that added text to a line of `text`, by line.
    """

    text: str = field(repr=False)
    tokens: Mapping[str, Variable] = field(default_factory=dict, repr=False)
    token: re.Pattern[str] | None = None
    lines: tuple[int, ...] = ()
    shifts: Mapping[int, Sequence[Shift]] = field(default_factory=dict)
    raw: Mapping[int, str] = field(default_factory=dict)

    def place(self, line: int, column: int) -> tuple[int, int]:
        """The file's own line and column for a place in `text`; all count from 1."""
        shifts = self.shifts.get(line, ())
        if before := bisect_right(shifts, column, key=lambda shift: shift.column):
            at = shifts[before - 1]
            column = at.of_file + (0 if at.is_raw else column - at.column)
        return self.lines[min(line, len(self.lines)) - 1] if self.lines else line, column

    def origin(self, text: str, first: int, last: int) -> str:
        """The variable that gave a piece of `text`, or none.

        Args:
            text: The piece.
            first: Its first line.
            last: Its last line.
        """
        if variable := self.variable_in(text):
            return variable
        return next((self.raw[line] for line in range(first, last + 1) if line in self.raw), "") if self.raw else ""

    def variable_in(self, text: str) -> str:
        """The spelling of the first variable in a piece of `text`, or none."""
        found = self.token.search(text) if self.token else None
        return self.tokens[found[0]].spelled if found else ""

    def filled(self, text: str) -> str:
        """A piece of `text`, with values instead of tokens."""
        return self.token.sub(lambda found: str(self.tokens[found[0]].value), text) if self.token else text


def substitute(text: str, file: str, *, keep: bool = False) -> Template:
    """Finds the variables of a file and loads them.

    Args:
        text: Text of the file.
        file: Name of the file, for messages.
        keep: Whether the value of each variable is its own spelling, so that `Template.filled` restores the text.

    Raises:
        DocumentError: A variable is not closed, or variables are too many or too long.
    """
    if "${" not in text:
        return Template(text)
    nonce = secrets.token_hex(8)
    maker = _Maker(f"k2k{nonce}x", _itself if keep else load)
    at = 0
    for opening in _OPENING.finditer(text):
        if opening.start() < at:
            continue  # inside the previous variable
        maker.plain(text[at : opening.start()])
        at = opening.end()
        if opening[0] == "$${":
            maker.plain("$${") if keep else maker.escape()
            continue
        closing = _CLOSING.search(text, at)
        inside = text[at : closing.start()] if closing else ""
        if not closing or closing[0] != "}" or _goes_on(text, opening.start(), inside):
            raise DocumentError([Problem(file, maker.line, maker.column, (), _NOT_CLOSED)])
        if problem := maker.variable(inside):
            raise DocumentError([Problem(file, maker.line, maker.column, (), problem)])
        at += len(inside) + 1
    maker.plain(text[at:])
    return maker.template()


def _itself(inside: str) -> tuple[Variable, bool]:
    written = f"${{{inside}}}"
    return Variable(shorten(written), written), False


def _goes_on(text: str, at: int, inside: str) -> bool:
    """Whether the next closing brace belongs to something else: `{ a: ${NAME, b: 1 }`. Comments are not checked."""
    if not _NEVER_INSIDE.search(inside):
        return False
    return not _COMMENT.search(text[text.rfind("\n", 0, at) + 1 : at])


class _Maker:
    """Collects the pieces of a template."""

    def __init__(self, prefix: str, load: Callable[[str], tuple[Variable, bool]]) -> None:
        self.line, self.column = 1, 1  # in the file
        self._prefix, self._load = prefix, load
        self._left = MAX_VALUE_BYTES
        self._pieces: list[str] = []
        self._tokens: dict[str, Variable] = {}
        self._lines = [1]
        self._column = 1  # in the text
        self._shifts: dict[int, list[Shift]] = {}
        self._raw: dict[int, str] = {}

    def plain(self, text: str) -> None:
        """Copies text of the file."""
        self._pieces.append(text)
        end = 0
        for found in _BREAK.finditer(text):
            self.line += 1
            self._lines.append(self.line)
            self.column = self._column = 1
            end = found.end()
        self.column += len(text) - end
        self._column += len(text) - end

    def escape(self) -> None:
        """Replaces `$${` by `${`."""
        self._pieces.append("${")
        self._replaced("$${", "${")

    def variable(self, inside: str) -> str:
        """Adds the variable between the braces; returns the fault, or an empty text."""
        variable, is_raw = self._load(inside)
        if len(self._tokens) + len(self._raw) >= MAX_VARIABLES:
            return f"more than {MAX_VARIABLES} variables"
        self._left -= len(str(variable.value))
        if self._left < 0:
            return f"the values of the variables up to {variable.spelled} are too long for a pipeline file"
        written = f"${{{inside}}}"
        if is_raw and not variable.fault:
            self._put_raw(str(variable.value), variable.spelled, written)
        else:
            token = f"{self._prefix}{len(self._tokens)}x"
            self._tokens[token] = variable
            self._pieces.append(token)
            self._replaced(written, token)
        return ""

    def template(self) -> Template:
        """The template from all pieces."""
        lines = tuple(self._lines) if len(self._lines) > self.line else ()
        token = re.compile(rf"{self._prefix}\d+x") if self._tokens else None
        return Template("".join(self._pieces), self._tokens, token, lines, self._shifts, self._raw)

    def _put_raw(self, value: str, spelled: str, written: str) -> None:
        self._pieces.append(value)
        self._raw[len(self._lines)] = spelled
        self._shift(is_raw=True)
        end = 0
        for found in _BREAK.finditer(value):
            self._lines.append(self.line)
            self._column = 1
            self._raw[len(self._lines)] = spelled
            self._shift(is_raw=True)
            end = found.end()
        self._replaced(written, value[end:])

    def _replaced(self, written: str, by: str) -> None:
        """Replaces text of the file; from here on the columns differ."""
        self.column += len(written)
        self._column += len(by)
        self._shift()

    def _shift(self, is_raw: bool = False) -> None:
        self._shifts.setdefault(len(self._lines), []).append(Shift(self._column, self.column, is_raw))
