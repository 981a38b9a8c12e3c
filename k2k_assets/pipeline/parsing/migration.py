"""A pipeline file of an older release of K2K in today's spellings, with its comments: what `k2k migrate` prints."""

from __future__ import annotations

import copy
import io
import re
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from k2k_assets.core.errors import PipelineFileError
from k2k_assets.pipeline.parsing.document import parse_document
from k2k_assets.pipeline.parsing.old_spellings import Change, modernized
from k2k_assets.pipeline.parsing.problems import Path, Problem, fail
from k2k_assets.pipeline.parsing.substitution import substitute

_NEVER_WRAPPED = 1_000_000
_INDENTED_LIST = re.compile(r"^( *)[^\s#-][^\n]*:[ \t]*(#[^\n]*)?\n(\s*(#[^\n]*)?\n)*\1 +- ", re.MULTILINE)


@dataclass(frozen=True)
class Migration:
    """A file in today's spellings.

    Attributes:
        text: Text of the file; unchanged where all spellings are of today.
        changes: One line for each change.
    """

    text: str
    changes: tuple[str, ...]


def migrated(text: str, file: str) -> Migration:
    """Rewrites a file in today's spellings; variables stay as they are.

    Args:
        text: Text of the file.
        file: Name of the file, for messages.

    Raises:
        DocumentError: The text is not a YAML document of a pipeline.
        PipelineFileError: An older spelling cannot be understood.
    """
    template = substitute(text, file, keep=True)
    found = modernized(parse_document(template, file))
    if found.problems:
        raise fail(found.problems)
    if not found.changes:
        return Migration(text, ())
    yaml = _yaml(text)
    document = _without_aliases(yaml.load(template.text), set())
    for change in found.changes:
        _apply(document, change)
    stream = io.StringIO()
    yaml.dump(document, stream)
    return Migration(template.filled(stream.getvalue()), tuple(found.warnings()))


def _yaml(text: str) -> YAML:
    """A YAML writer that keeps the style of the file."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = _NEVER_WRAPPED
    if _INDENTED_LIST.search(text):
        yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _without_aliases(value: Any, seen: set[int]) -> Any:
    """Copies sections that aliases share, so that a change at one place leaves the others alone."""
    if not isinstance(value, CommentedMap | CommentedSeq):
        return value
    if id(value) in seen:
        value = copy.deepcopy(value)
    seen.add(id(value))
    for key, item in list(value.items() if isinstance(value, CommentedMap) else enumerate(value)):
        own = _without_aliases(item, seen)
        if own is not item:
            value[key] = own
    return value


def _apply(document: CommentedMap, change: Change) -> None:
    *parents, key = change.old
    section = _section(document, tuple(parents))
    if change.old == change.new:
        section[key] = _one_map(section[key])
        return
    if key not in dict(section.non_merged_items()):
        why = "it comes from an anchor by `<<`; write it out first"
        raise PipelineFileError(str(Problem(*change.place, change.written_at, why)))
    value = section.pop(key)
    comment = section.ca.items.pop(key, None)
    if change.new is None:
        return
    *parents, key = change.new
    section = _section(document, tuple(parents))
    section[key] = value
    if comment is not None and not section.fa.flow_style():  # in braces it would break the line
        section.ca.items[key] = comment


def _section(document: CommentedMap, path: Path) -> Any:
    """The section at a path; it creates missing ones, `common` before those that inherit from it."""
    section: Any = document
    for part in path:
        if isinstance(section, CommentedMap) and section.get(part) is None:
            made = CommentedMap()
            if part == "common" and part not in section:
                section.insert(0, part, made)
            else:
                section[part] = made
        section = section[part]
    return section


def _one_map(maps: Any) -> CommentedMap:
    """One map from a list of maps."""
    whole = CommentedMap()
    for one in maps:
        whole.update(one)
    return whole
