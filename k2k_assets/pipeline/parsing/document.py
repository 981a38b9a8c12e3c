"""YAML text to a tree in which every key and value knows its file and line.

Reads events, not objects: it constructs only maps, lists and scalars. It stops at the first event that breaks a limit,
so a hostile file costs neither memory nor time. Plain scalars follow YAML 1.2 (only `true` and `false` are booleans,
`10:30` is text).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import yaml

from k2k_assets.pipeline.parsing.problems import DocumentError, Path, Problem, is_secret, shorten
from k2k_assets.pipeline.parsing.substitution import Template

MAX_BYTES = 1_000_000
MAX_DEPTH = 50
MAX_NODES = 50_000  # aliases counted each time they are used: ten lines of them can stand for 10^10 values

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?[0-9]{1,30}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,4})?")
# The loader without libyaml quotes a part of `!Hunter!2`, which may be a password.
_TAG_HANDLE = re.compile(r"(?<=handle) '.*", re.DOTALL)
_KEYWORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_SIGNS = {"tag": "!", "alias": "*", "anchor": "&"}
Place = tuple[int, int]
"""Line and column, both counted from 1."""

_PLAIN_KINDS = ("str", "int", "float", "bool", "null", "map", "seq")
_PLAIN_TAGS = {None, "!", *(f"tag:yaml.org,2002:{kind}" for kind in _PLAIN_KINDS)}


@dataclass(frozen=True)
class Node:
    """A value and its place. `value` is a dict or list of nodes, or a scalar; `line` and `column` are its key's.

    `origin` is the variable that gave the value, or empty; `fault` says why that variable has no value. `text` is how a
    number or a boolean stands in the file, and empty for all else.
    """

    value: dict[str, Node] | list[Node] | str | int | float | bool | None
    file: str
    line: int
    column: int
    origin: str = ""
    fault: str = ""
    text: str = ""

    def plain(self) -> object:
        """The value as plain dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def at(self, path: Path) -> Node:
        """The node at a path, or its nearest ancestor that exists."""
        node = self
        for part in path:
            inner: Any = node.value
            is_there = (
                part in inner if isinstance(inner, dict) else isinstance(inner, list) and part in range(len(inner))
            )
            if not is_there:
                break
            node = inner[part]
        return node


def parse_document(text: str | Template, file: str) -> Node:
    """Read one YAML document whose root is a mapping.

    Args:
        text: Text of a file, or its template from `substitute`.
        file: Name of the file.

    Raises:
        DocumentError: bad syntax, several documents, a root that is not a mapping, duplicate keys, nesting deeper
            than 50, more than 50 000 values, or a tag that asks for an object.
    """
    template = text if isinstance(text, Template) else Template(text)
    composer = _Composer(template, file)
    try:
        root = composer.compose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # PyYAML's full text quotes the file, which may contain passwords.
        what = f"not valid YAML: {_TAG_HANDLE.sub('', error.problem or 'syntax error')}"
        if error.context:
            what += f" ({error.context})"
        if template.raw:
            what += f"; {next(iter(template.raw.values()))} stands in the file as raw text"
        place = template.place(mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise DocumentError([Problem(file, *place, (), what)]) from None
    except yaml.YAMLError as error:
        what = f"not valid YAML: {getattr(error, 'reason', 'unreadable text')}"
        raise DocumentError([Problem(file, 0, 0, (), what)]) from None
    if composer.duplicates:
        raise DocumentError(composer.duplicates)
    return root


class _Composer:
    """Builds the tree from PyYAML's events, within the limits."""

    def __init__(self, template: Template, file: str) -> None:
        self.file = file
        self.template = template
        self.events: Iterator[Any] = yaml.parse(template.text, Loader=_LOADER)  # the stubs know no event's fields
        self.anchors: dict[str, tuple[Node, int]] = {}  # name -> (node, how many values it stands for)
        self.open_anchors: set[str] = set()
        self.count = 0
        self.duplicates: list[Problem] = []

    def compose(self) -> Node:
        next(self.events)  # start of the stream
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            self.refuse((1, 1), "expected a mapping (`name: ...`), found an empty file")
        event = next(self.events)
        place = _place(event)
        root = self.node(event, 0, ())
        if not isinstance(root.value, dict):
            kind = "an empty document" if root.value is None else "something else"
            self.refuse(place, f"expected a mapping (`name: ...`) at the top of the file, found {kind}")
        next(self.events)  # end of the document
        event = next(self.events)
        if not isinstance(event, yaml.StreamEndEvent):
            self.refuse(
                _place(event), "a second YAML document begins here; expected one document a file (pass several -f)"
            )
        return root

    def refuse(self, place: Place, message: str) -> NoReturn:
        """Refuses the document.

        Args:
            place: Line and column in the parsed text.
            message: It may quote names of tags and anchors, unless they came from a variable.
        """
        if place[0] in self.template.raw:
            message = f"{self.template.raw[place[0]]} stands in the file as raw text, which is not valid YAML here"
        raise DocumentError([*self.duplicates, Problem(self.file, *self.template.place(*place), (), message)])

    def node(self, event: Any, depth: int, path: Path) -> Node:
        place = _place(event)
        if depth > MAX_DEPTH:
            self.refuse(place, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            return self.alias(str(event.anchor), place, path)
        before = self.count
        self.charge(1, place)
        if event.tag not in _PLAIN_TAGS:
            self.refuse(place, _about("tag", event.tag, "is not accepted; write plain values", path))
        if event.anchor:
            if is_secret(path) and isinstance(event, yaml.ScalarEvent) and event.implicit[0] and not event.value:
                # The value may be a password that begins with `&`; YAML would read it as empty.
                self.refuse(place, _about("anchor", f"&{event.anchor}", "has no value after it", path))
            self.open_anchors.add(event.anchor)
        at = self.template.place(*place)
        if isinstance(event, yaml.MappingStartEvent):
            node = Node(self.mapping(depth, path), self.file, *at)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = Node(self.sequence(depth, path), self.file, *at)
        else:
            node = self.scalar(event, at)
        if event.anchor:
            self.open_anchors.discard(event.anchor)
            self.anchors[event.anchor] = (node, self.count - before)
        return node

    def scalar(self, event: Any, at: Place) -> Node:
        """A scalar, with the values of the variables in it."""
        template = self.template
        origin = template.origin(event.value, _place(event)[0], event.end_mark.line + 1)
        used = [template.tokens[token] for token in template.token.findall(event.value)] if template.token else []
        if fault := next((variable.fault for variable in used if variable.fault), ""):
            return Node(None, self.file, *at, origin, fault)
        if not used:
            value = _scalar(event)
            return Node(value, self.file, *at, origin, text=event.value if isinstance(value, int | float) else "")
        if event.value in template.tokens and event.implicit[0]:
            return Node(template.tokens[event.value].value, self.file, *at, origin)
        return Node(template.filled(event.value), self.file, *at, origin)

    def charge(self, values: int, place: Place) -> None:
        self.count += values
        if self.count > MAX_NODES:
            self.refuse(place, f"more than {MAX_NODES} values (aliases counted each time they are used)")

    def alias(self, name: str, place: Place, path: Path) -> Node:
        if name in self.open_anchors:
            self.refuse(place, _about("alias", f"*{name}", "contains itself", path))
        if name not in self.anchors:
            self.refuse(place, _about("alias", f"*{name}", "has no anchor before it", path))
        node, size = self.anchors[name]
        self.charge(size, place)
        return node

    def sequence(self, depth: int, path: Path) -> list[Node]:
        items: list[Node] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self.node(event, depth + 1, (*path, len(items))))
        return items

    def mapping(self, depth: int, path: Path) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        inherited: dict[str, Node] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            place = _place(event)
            if not isinstance(event, yaml.ScalarEvent):
                self.refuse(place, "expected a plain key, found a mapping, a list or an alias as a key")
            self.charge(1, place)
            key = event.value
            if variable := self.template.variable_in(key):
                self.refuse(place, f"{variable} stands in a key; write the key out")
            value = self.node(next(self.events), depth + 1, (*path, key))
            if key == "<<" and event.implicit[0]:
                inherited = self.merge_key(value, place)
                continue
            at = self.template.place(*place)
            if key in entries:
                first = f"{entries[key].file}:{entries[key].line}:{entries[key].column}"
                self.duplicates.append(Problem(self.file, *at, (*path, key), f"duplicate key, first at {first}"))
            # Readers look for the key, also when the value is a block below it.
            entries[key] = replace(value, line=at[0], column=at[1])
        return {**inherited, **entries}

    def merge_key(self, value: Node, place: Place) -> dict[str, Node]:
        """YAML's `<<: *defaults`: entries from other maps; earlier maps win."""
        sources = value.value if isinstance(value.value, list) else [value]
        merged: dict[str, Node] = {}
        for source in reversed(sources):
            if not isinstance(source.value, dict):
                self.refuse(place, "expected a mapping or a list of mappings after '<<'")
            else:
                merged.update(source.value)
        return merged


def _about(kind: str, text: str, fault: str, path: Path) -> str:
    """The fault of a tag, an alias or an anchor. In a secret value its name may be the password, so it is hidden."""
    if is_secret(path):
        return f"a value that begins with '{_SIGNS[kind]}' must be quoted (as YAML's {kind}, it {fault})"
    return f"the {kind} '{shorten(text)}' {fault}"


def _place(event: Any) -> Place:
    return int(event.start_mark.line) + 1, int(event.start_mark.column) + 1


def _scalar(event: yaml.ScalarEvent) -> str | int | float | bool | None:
    text: str = event.value
    kind = (event.tag or "").rpartition(":")[2]
    if kind == "str" or event.tag == "!" or not (kind or event.implicit[0]):
        return text  # quoted, a block, or asked to be text
    if text in _KEYWORDS:
        return _KEYWORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
