"""A YAML reader and writer that keeps comments, quotes, and each value as it is written."""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.constructor import RoundTripConstructor
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.resolver import VersionedResolver

_NEVER_WRAPPED = 1_000_000
_INDENTED_LIST = re.compile(r"^( *)[^\s#-][^\n]*:[ \t]*(#[^\n]*)?\n(\s*(#[^\n]*)?\n)*\1 +- ", re.MULTILINE)
_KINDS = ("null", "str", "seq", "map")
_NOT_AS_WRITTEN = ("", "<<")  # an empty value has no text, and `<<` takes over the keys of other maps


def round_trip(text: str) -> YAML:
    """A reader and writer that keeps the style of a file."""
    yaml = YAML()
    yaml.Resolver, yaml.Composer, yaml.Constructor = _Resolver, _Composer, _Constructor
    yaml.preserve_quotes = True
    yaml.width = _NEVER_WRAPPED
    if _INDENTED_LIST.search(text):
        yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


class _Resolver(VersionedResolver):
    """Takes each plain scalar for text: as numbers and dates they would come back in another spelling."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is ScalarNode and value not in _NOT_AS_WRITTEN:
            return self.DEFAULT_SCALAR_TAG
        return super().resolve(kind, value, implicit)


class _Composer(Composer):
    """Keeps each tag, `!` too: `! 1` is text, and `1` is a number."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        self.warn_double_anchors = False  # the warning quotes the file

    def compose_scalar_node(self, anchor: Any) -> Any:
        tag = self.parser.peek_event().ctag
        node = super().compose_scalar_node(anchor)
        if tag is not None:
            node.ctag = tag
        return node


class _Constructor(RoundTripConstructor):
    """Knows no numbers: what asks for one by its tag keeps its tag and its text."""

    yaml_constructors = {
        tag: constructor
        for tag, constructor in RoundTripConstructor.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in _KINDS
    }
