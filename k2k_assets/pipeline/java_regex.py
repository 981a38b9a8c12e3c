"""Java regular expressions, which K2K files contain, in Python.

Topic names are ASCII, so Java's Unicode classes become ASCII sets there. In contents of records they are what they are
in Java, and so is `.`, which is no line terminator. A construct that Python cannot express is refused, never
reinterpreted.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache

import regex

from k2k_assets.core.errors import Refused

_CLASSES = {
    "Lower": "a-z", "Ll": "a-z", "IsLowercase": "a-z", "javaLowerCase": "a-z",
    "Upper": "A-Z", "Lu": "A-Z", "IsUppercase": "A-Z", "javaUpperCase": "A-Z",
    "Alpha": "a-zA-Z", "L": "a-zA-Z", "IsAlphabetic": "a-zA-Z", "IsL": "a-zA-Z", "IsLatin": "a-zA-Z",
    "Digit": "0-9", "N": "0-9", "Nd": "0-9", "IsDigit": "0-9",
    "Alnum": "a-zA-Z0-9", "XDigit": "0-9a-fA-F", "ASCII": r"\x00-\x7F",
    "Punct": r"!-/:-@\[-`{-~", "P": r"!-#%-*,-/:;?@\[-\]_{}",
}  # fmt: skip


# Those of them that are not ASCII in Java, and what `regex` calls them. The others are POSIX's.
_UNICODE = {
    "Ll": "Ll", "IsLowercase": "Lowercase", "javaLowerCase": "Lowercase",
    "Lu": "Lu", "IsUppercase": "Uppercase", "javaUpperCase": "Uppercase",
    "L": "L", "IsL": "L", "IsAlphabetic": "Alphabetic", "IsLatin": "Script=Latin",
    "N": "N", "Nd": "Nd", "IsDigit": "Nd", "P": "P",
}  # fmt: skip
_LINE_ENDS = r"\n\r\x85\u2028\u2029"
_VERTICAL = r"\x0b\x0c" + _LINE_ENDS
_HORIZONTAL = r"\x20\t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"


class RegexError(ValueError):
    """A pattern that cannot be used. `position` counts characters of the Java pattern from 0."""

    def __init__(self, message: str, position: int | None) -> None:
        super().__init__(message if position is None else f"{message} at position {position}")
        self.position = position


# A usual expression takes microseconds; one like `(a|a)*[bc]` could take years. It is the processor time of all threads
# of the process: far more than any usual match takes, though others work meanwhile.
_LONGEST_SECONDS = 1.0


class JavaPattern:
    """A Java regular expression.

    Args:
        pattern: The pattern in the file.
        translated: The same pattern for Python, whose `\\w`, `\\d`, `\\s` and letter case are ASCII, as in Java.
    """

    def __init__(self, pattern: str, translated: str) -> None:
        self._pattern = pattern
        self._compiled = regex.compile(translated, regex.ASCII | regex.VERSION0)

    def matches(self, name: str) -> bool:
        """Whether it matches the whole name, as in Kafka's pattern subscription.

        Raises:
            Refused: The match takes too long.
        """
        try:
            return self._compiled.fullmatch(name, timeout=_LONGEST_SECONDS) is not None
        except TimeoutError:
            raise Refused(
                f"it takes too long to match the regular expression '{self._pattern}' against '{name}'. Write it "
                "without repetitions of repetitions"
            ) from None


@lru_cache(maxsize=4096)
def compile_java(pattern: str, of_contents: bool = False) -> JavaPattern:
    """Compiles a Java regex.

    Args:
        pattern: The pattern.
        of_contents: Whether it is matched against contents of records, which may be any text, instead of names.

    Raises:
        RegexError: the pattern is not a regex, or uses features that only Java has (nested classes, ...).
    """
    translated, origin = _translate(pattern, of_contents)
    try:
        re.compile(translated, re.ASCII)  # refuses extensions that only `regex` has
        return JavaPattern(pattern, translated)
    except ValueError as error:  # of flags that contradict each other
        raise RegexError(str(error), None) from None
    except (re.error, regex.error, OverflowError, RecursionError) as error:
        position = getattr(error, "pos", None)
        at = origin[min(position, len(origin) - 1)] if position is not None and origin else position
        raise RegexError(getattr(error, "msg", "too large"), at) from None


# Java refuses anything else in braces; `regex` may read it as the number of errors that a match may have.
_REPETITION = re.compile(r"\{\d+(,\d*)?\}")


_DOTALL = re.compile(r"\(\?[a-zA-Z-]*s")


def _translate(pattern: str, of_contents: bool = False) -> tuple[str, list[int]]:
    """The Python pattern, and for each of its characters the position in the Java pattern."""
    begins_with_s = re.match(r"\(\?[a-zA-Z]*s[a-zA-Z]*\)", pattern) is not None
    dot = f"[^{_LINE_ENDS}]" if of_contents and not begins_with_s else "."
    out: list[str] = []
    origin: list[int] = []
    at = 0
    in_class = False

    def emit(text: str, taken: int) -> int:
        out.append(text)
        origin.extend([at] * len(text))
        return at + taken

    while at < len(pattern):
        rest = pattern[at : at + 64]
        if rest.startswith("\\"):
            text, taken = _escape(pattern, at, in_class, of_contents)
            at = emit(text, taken)
        elif in_class:
            if rest.startswith(("[", "&&")):
                raise RegexError("classes inside classes (Java's union and intersection) are not supported", at)
            in_class = rest[0] != "]"
            at = emit(rest[0], 1)
        elif rest.startswith("["):
            in_class = True
            begin = "[^" if rest[1:2] == "^" else "["
            # Right behind it a bracket is a character of the class.
            is_member = rest[len(begin) :].startswith("]")
            at = emit(begin + r"\]" * is_member, len(begin) + is_member)
        elif of_contents and _DOTALL.match(rest) and not (begins_with_s and at == 0):
            raise RegexError("the flag s is supported at the beginning only", at)
        elif re.match(r"\(\?<[a-zA-Z]", rest):
            at = emit("(?P<", 3)
        elif rest.startswith("{") and not _REPETITION.match(rest):
            raise RegexError("illegal repetition; for the character itself write \\{", at)
        else:
            at = emit(dot if rest[0] == "." else rest[0], 1)
    return "".join(out), origin


@lru_cache
def _ranges(unicode_class: str) -> str:
    """The characters of a class, as they are written between brackets."""
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    runs = regex.finditer(rf"\p{{{unicode_class}}}+", every)
    return "".join(rf"\U{run.start():08x}-\U{run.end() - 1:08x}" for run in runs)


def _escape(pattern: str, at: int, in_class: bool, of_contents: bool) -> tuple[str, int]:
    """The Python text for the escape at `at`, and how many characters it took."""
    kind = pattern[at + 1 : at + 2]
    if kind == "Q":
        end = pattern.find("\\E", at + 2)
        end = len(pattern) if end < 0 else end
        return re.escape(pattern[at + 2 : end]), min(end + 2, len(pattern)) - at
    if kind in ("p", "P"):
        match = re.compile(r"\{(\w+)\}|(\w)").match(pattern, at + 2)
        name = (match[1] or match[2]) if match else None
        if not match or name not in _CLASSES or (in_class and kind == "P"):
            raise RegexError("this character class is not supported", at)
        ranges = _ranges(_UNICODE[name]) if of_contents and name in _UNICODE else _CLASSES[name]
        text = ranges if in_class else f"[{'^' if kind == 'P' else ''}{ranges}]"
        return text, match.end() - at
    if kind == "k":
        match = re.compile(r"<(\w+)>").match(pattern, at + 2)
        if match:
            return f"(?P={match[1]})", match.end() - at
    if kind == "z" or kind == "Z":
        return r"\Z", 2
    if of_contents and kind in ("h", "v"):
        spaces = _HORIZONTAL if kind == "h" else _VERTICAL
        return (spaces if in_class else f"[{spaces}]"), 2
    if kind == "h":
        return (r" \t" if in_class else r"[ \t]"), 2
    return pattern[at : at + 2], 2
