"""A pipeline file of an older release of K2K in today's spellings, with its comments: what `k2k migrate` prints."""

from __future__ import annotations

import copy
import io
from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError

from k2k_assets.core.errors import PipelineFileError
from k2k_assets.pipeline.parsing.document import Node, parse_document
from k2k_assets.pipeline.parsing.old_spellings import Change, modernized, sides_of_01
from k2k_assets.pipeline.parsing.problems import DocumentError, Path, Problem, fail
from k2k_assets.pipeline.parsing.round_trip import round_trip
from k2k_assets.pipeline.parsing.substitution import Template, substitute

_TOO_STRICT = (
    "`k2k migrate` cannot rewrite this line, although it is valid YAML; write spaces instead of tabs, and each "
    "key of a section, `<<` too, once"
)
_OTHER_MEANING = (
    "`k2k migrate` cannot rewrite this file without a change of its meaning; change the old spellings by hand"
)


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
        PipelineFileError: An older spelling cannot be understood, or the text cannot be rewritten.
    """
    template = substitute(text, file, keep=True)
    root = parse_document(template, file)
    found = modernized(root, sides_of_01(root))
    if found.problems:
        raise fail(found.problems)
    if not found.changes:
        return Migration(text, ())
    yaml = round_trip(text)
    document = _loaded(yaml, template, file)
    taken_over = _taken_over(document)
    for change in found.changes:
        _apply(document, change, taken_over)
    stream = io.StringIO()
    yaml.dump(document, stream)
    if not _means(replace(template, text=stream.getvalue()), file, found.root):
        raise fail([Problem(file, 0, 0, (), _OTHER_MEANING)])
    return Migration(template.filled(stream.getvalue()), tuple(found.warnings()))


def _loaded(yaml: YAML, template: Template, file: str) -> Any:
    """The document, in which each section is its own.

    Raises:
        PipelineFileError: This reader is stricter than the one of `parse_document`, for example about tabs.
    """
    try:
        document = yaml.load(template.text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = template.place(mark.line + 1, mark.column + 1) if mark else (0, 0)
        # The error's own text quotes the file, which may contain passwords.
        raise fail([Problem(file, *place, (), _TOO_STRICT)]) from None
    return _without_aliases(document, set())


def _means(written: Template, file: str, expected: Node) -> bool:
    """Whether a new text has the values that are expected."""
    try:
        return parse_document(written, file).plain() == expected.plain()
    except DocumentError:
        return False


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


def _taken_over(value: Any) -> set[int]:
    """Identities of the sections that others take over by `<<`."""
    is_map = isinstance(value, CommentedMap)
    inner = value.values() if is_map else value if isinstance(value, CommentedSeq) else ()
    merged = value.merge if is_map else ()
    return {id(section) for section in merged}.union(*map(_taken_over, inner))


def _apply(document: CommentedMap, change: Change, taken_over: Set[int]) -> None:
    *parents, key = change.old
    section = _section(document, tuple(parents))
    if change.old == change.new:
        section[key] = _one_map(section[key])
        return
    if key not in dict(section.non_merged_items()):
        why = "it comes from an anchor by `<<`; write it out first"
        raise PipelineFileError(str(Problem(*change.place, change.written_at, why)))
    if id(section) in taken_over:
        why = "another section takes it over by `<<`; write it out there first"
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
    """The section at a path; it creates missing and empty ones, `common` before those that inherit from it."""
    section: Any = document
    for part in path:
        if isinstance(section, CommentedMap) and not isinstance(section.get(part), CommentedMap | CommentedSeq):
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
