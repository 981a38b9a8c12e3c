"""`load_pipeline`: files to a checked `Pipeline`, or one error that lists all faults of all files.

1. read each file, within limits, and fill in variables     2. replace old spellings
3. merge the files     4. remove keys without effect        5. validate each section
6. check rules between sections
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, takewhile
from pathlib import Path as FilePath
from typing import Any, cast

from pydantic import ValidationError

from k2k_assets.core.errors import PipelineFileError
from k2k_assets.pipeline import checks
from k2k_assets.pipeline.model import Pipeline
from k2k_assets.pipeline.parsing import known_keys, schema
from k2k_assets.pipeline.parsing.document import MAX_BYTES, Node, parse_document
from k2k_assets.pipeline.parsing.merge import filled, merge
from k2k_assets.pipeline.parsing.old_spellings import modernized, sides_of_01
from k2k_assets.pipeline.parsing.problems import DocumentError, Path, Problem, describe, fail
from k2k_assets.pipeline.parsing.redaction import redacting
from k2k_assets.pipeline.parsing.schema import problem_at, problems_of
from k2k_assets.pipeline.parsing.substitution import substitute
from k2k_assets.pipeline.sections.stages import STAGES, StageFault, item_faults
from k2k_assets.pipeline.sections.transform import texts_of_rules

_DECIMAL = re.compile(r"[0-9]+(\.[0-9]+)?")


def load_pipeline(
    paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str], *, defaults: str = "", variables: bool = True
) -> Pipeline:
    """Load one pipeline from one or more files, later files over earlier ones.

    Args:
        paths: the files.
        defaults: YAML with values for keys that the files do not have.
        variables: whether `${...}` is a variable, or plain text.

    Raises:
        PipelineFileError: the files cannot be used; the message lists every fault with its file, line and column.
    """
    files = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not files:
        raise PipelineFileError("no pipeline file was given; pass at least one with -f")
    read = _read_all([str(file) for file in files], variables)
    if defaults:
        read = replace(read, root=filled(read.root, parse_document(defaults, "defaults")))
    return _checked(read, tuple(FilePath(file).absolute() for file in files))


def load_pipeline_in(file: str | FilePath, section: Path, lines: range) -> Pipeline:
    """Load a pipeline from a section of another YAML file.

    Args:
        file: the file.
        section: keys from the top of the document to the pipeline.
        lines: lines of the document that contains it, counted from 1.

    Raises:
        PipelineFileError: it cannot be used; the message lists every fault with line and column of the file.
    """
    try:
        # The other lines become empty, so that each line keeps its number.
        kept = (line if at in lines else "" for at, line in enumerate(read_text(str(file)).split("\n"), start=1))
        root = parse_document(substitute("\n".join(kept), str(file)), str(file)).at(section)
    except DocumentError as error:
        raise fail(error.problems) from None
    return _checked(_of([root]))


def is_for_mapper_alone(file: str | FilePath) -> bool:
    """Whether a file is only for the offset mapper: it has groups or mappings, and copies nothing."""
    try:
        return schema.is_for_mapper_alone(_read(str(file), variables=True))
    except DocumentError:
        return False


@dataclass(frozen=True)
class _Read:
    """The merged files.

    Attributes:
        root: Their merged document.
        warnings: Warnings about old spellings.
        problems: Old spellings that cannot be understood.
    """

    root: Node
    warnings: tuple[str, ...]
    problems: tuple[Problem, ...]


def _of(documents: Sequence[Node]) -> _Read:
    of_01 = set[str]().union(*map(sides_of_01, documents))
    found = [modernized(document, of_01) for document in documents]
    warnings = tuple(line for one in found for line in one.warnings())
    problems = tuple(problem for one in found for problem in one.problems)
    return _Read(reduce(merge, (one.root for one in found)), warnings, problems)


def _checked(read: _Read, files: tuple[FilePath, ...] = ()) -> Pipeline:
    root = read.root
    problems = [*read.problems, *_without_values(root, ())]
    document = cast(dict[str, object], _without_nulls(root.plain()))
    _keep_texts(document, root)
    infos = tuple(known_keys.take_out(document))
    pipeline, found = _validate(document, root)
    problems += _not_below(found, problems)
    if pipeline:
        pipeline._files = files
        spanning = [problem_at(root, path, message) for path, message in checks.check_all(pipeline)]
        problems += _not_below(spanning, problems)
    if problems or not pipeline:
        raise fail(problems, redacting(root))
    pipeline._warnings = (*read.warnings, *checks.warnings(pipeline))
    pipeline._infos = infos
    return pipeline


def _read_all(files: list[str], variables: bool) -> _Read:
    documents: list[Node] = []
    problems: list[Problem] = []
    for file in files:
        try:
            documents.append(_read(file, variables))
        except DocumentError as error:
            problems += error.problems
    if problems:
        raise fail(problems)
    return _of(documents)


def _read(file: str, variables: bool) -> Node:
    text = read_text(file)
    return parse_document(substitute(text, file) if variables else text, file)


def read_text(file: str) -> str:
    """The file's text; it never reads more than the limit."""
    try:
        with open(file, "rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        what = f"cannot be read: {error.strerror or type(error).__name__}"
        raise DocumentError([Problem(file, 0, 0, (), what)]) from None
    if len(content) > MAX_BYTES:
        raise DocumentError([Problem(file, 0, 0, (), f"larger than {MAX_BYTES} bytes; no pipeline file is")])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode(errors="replace").split("\n")
        what = "expected UTF-8 text, found other bytes"
        raise DocumentError([Problem(file, len(before), len(before[-1]) + 1, (), what)]) from None


def _without_values(node: Node, path: Path) -> Iterator[Problem]:
    """Variables that have no value, except in sections that are not checked."""
    if path in known_keys.IGNORED:
        return
    if isinstance(node.value, dict):
        for key, item in node.value.items():
            yield from _without_values(item, (*path, key))
    elif isinstance(node.value, list):
        for position, item in enumerate(node.value):
            yield from _without_values(item, (*path, position))
    elif node.fault:
        yield Problem(node.file, node.line, node.column, path, node.fault)


def _without_nulls(value: object) -> object:
    """Removes keys with null: `key: null` and an empty section mean "absent", and remove an earlier file's value.

    Within rules of `transform` they stay, to be refused: a later file replaces these as a whole.
    """
    if isinstance(value, dict):
        return {
            key: item if key in ("staticMapping", "transform") else _without_nulls(item)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _keep_texts(document: dict[str, object], root: Node) -> None:
    """Puts the text of the file where a number or a boolean stands for text: the header `1.10` is not `1.1`."""
    of_clusters = (_odd_numbers(root.at((role,)), (role,)) for role in ("source", "target") if role in document)
    for path in (*texts_of_rules(document.get("transform")), *chain.from_iterable(of_clusters)):
        if text := root.at(path).text:
            section: Any = document
            for part in path[:-1]:
                section = section[part]
            section[path[-1]] = text


def _odd_numbers(node: Node, at: Path) -> Iterator[Path]:
    """Paths of numbers that are written in another way than they are told, such as the password `0123`."""
    if isinstance(node.value, dict):
        for key, inner in node.value.items():
            yield from _odd_numbers(inner, (*at, key))
    elif _DECIMAL.fullmatch(node.text) and node.text != str(node.value):
        yield at


def _validate(document: dict[str, object], root: Node) -> tuple[Pipeline | None, list[Problem]]:
    """The pipeline without problems; or the problems, and the faultless part of the pipeline for further checks."""
    try:
        return Pipeline.model_validate(document), []
    except ValidationError as error:
        problems = problems_of(error, root, Pipeline)
    if any(problem.path[:1] == ("replication",) for problem in problems):
        told = {problem.path for problem in problems}
        problems += [problem for problem in _stage_problems(document, root) if problem.path not in told]
    # Without the faulty parts, the checks between sections can find the other faults of the file.
    rest = _without(document, [problem.path for problem in problems])
    try:
        return Pipeline.model_validate(rest), problems
    except ValidationError:
        return None, problems


def _stage_problems(document: dict[str, object], root: Node) -> list[Problem]:
    """The faults of each stage and of its content, whether or not the list of stages is faulty itself."""
    stages = document.get("replication")
    if not isinstance(stages, list):
        return []
    found = [_stage_problem(root, fault) for fault in item_faults(stages)]
    for position, item in enumerate(stages):
        for kind, content in item.items() if isinstance(item, dict) else ():
            if kind in STAGES and isinstance(content, dict):
                try:
                    STAGES[kind].model_validate(content)
                except ValidationError as error:
                    found += problems_of(error, root, Pipeline, ("replication", position, kind))
    return found


def _stage_problem(root: Node, fault: StageFault) -> Problem:
    path = ("replication", *fault.at)
    found = f", found {describe(root.at(path).plain(), path)}" if fault.shown else ""
    return problem_at(root, path, f"expected {fault.expected}{found}")


def _without(document: dict[str, object], faulty: list[Path]) -> dict[str, object]:
    """A copy without the faulty keys; a required section that is missing then is empty."""
    rest = copy.deepcopy(document)
    for path in faulty:
        # A list with a fault is removed as a whole.
        keys = list(takewhile(lambda part: isinstance(part, str), path))
        section: Any = rest
        for part in keys[:-1]:
            section = section.get(part) if isinstance(section, dict) else None
        if keys and isinstance(section, dict):
            section.pop(keys[-1], None)
    for side in ("source", "target"):
        kafka = rest.setdefault(side, {"kafka": {}})
        if isinstance(kafka, dict):
            kafka.setdefault("kafka", {})
    rest.setdefault("name", "?")
    if any(path[:1] == ("replication",) for path in faulty):
        rest["replication"] = [{"source": {"topic": ".*"}}, {"sink": {"topic": "source", "partition": "source"}}]
    return rest


def _not_below(candidates: list[Problem], reported: list[Problem]) -> list[Problem]:
    """Problems at places that have none yet, so that each fault is reported once."""
    taken = {problem.path for problem in reported if problem.path}
    return [p for p in candidates if not any(p.path[:depth] in taken for depth in range(1, len(p.path) + 1))]
