"""Writes pipeline files for commands: it overwrites no file of the user, and writes only valid files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from k2k_assets.core.atomic_file import write_atomically
from k2k_assets.core.errors import PipelineFileError, Refused
from k2k_assets.pipeline import Pipeline, load_pipeline


def ensure_new(file: Path, force: bool) -> None:
    """Makes sure that no file of the user is overwritten.

    Raises:
        UsageError: The file exists.
    """
    if file.exists() and not force:
        raise click.UsageError(f"{file} exists. Name another file, or overwrite it with --force")


def write_checked(file: Path, text: str, *, variables: bool = True) -> Pipeline:
    """Writes a pipeline file that `k2k validate` accepts. Only its owner may read it, because it may contain secrets.

    Args:
        file: Path of the file.
        text: Content of the file.
        variables: Whether variables already have their values here.

    Raises:
        PipelineFileError: The text is not a valid pipeline file; nothing is written.
        Refused: The file cannot be written.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise Refused(f"{file} cannot be written: line {line} would hold bytes that are no UTF-8 text") from None
    with tempfile.TemporaryDirectory(prefix="k2k-") as directory:
        draft = Path(directory) / file.name
        draft.write_text(text, encoding="utf-8")
        try:
            pipeline = load_pipeline([draft], variables=variables)
        except PipelineFileError as fault:
            raise PipelineFileError(str(fault).replace(str(draft), str(file))) from None
    try:
        write_atomically(file, text)
    except OSError as error:
        raise Refused(f"{file} cannot be written: {error.strerror}") from None
    return pipeline
