"""Which pipelines the server shows: the files that it was given, or those of a folder that it watches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from k2k_assets.core.errors import PipelineFileError
from k2k_assets.pipeline import Pipeline, load_pipeline

_SUFFIXES = (".yaml", ".yml")
_Stamp = tuple[tuple[str, int, int] | None, ...]


@dataclass(frozen=True)
class LoadedFiles:
    """The files of one pipeline, read.

    Attributes:
        files: The files, without those of defaults.
        pipeline: What they say; None if they cannot be used.
        fault: Why they cannot be used; empty if they can.
        id: The pipeline in addresses: its name and group, so that no other file decides what is meant; empty if there
            is none.
    """

    files: tuple[Path, ...]
    pipeline: Pipeline | None = None
    fault: str = ""
    id: str = ""


class PipelineFiles:
    """Reads pipeline files, and reads them again when they change.

    Args:
        pipelines: The files of each pipeline.
        folder: A folder, each YAML file of which is a pipeline; None: there is none.
        defaults: Files that come before those of each pipeline.
        variables: Whether `${...}` in a file is a variable.
    """

    def __init__(
        self,
        pipelines: Sequence[tuple[Path, ...]] = (),
        folder: Path | None = None,
        defaults: tuple[Path, ...] = (),
        variables: bool = True,
    ) -> None:
        self._given = tuple(pipelines)
        self._folder = folder
        self._defaults = defaults
        self._variables = variables
        self._read: dict[tuple[Path, ...], tuple[_Stamp, LoadedFiles]] = {}

    def current(self) -> list[LoadedFiles]:
        """All pipelines as their files say now. A pipeline whose files did not change stays the same object."""
        wanted = [*self._given, *((path,) for path in self._in_folder())]
        self._read = {files: self._fresh(files) for files in wanted}
        return list(_named(loaded for _, loaded in self._read.values()))

    def _in_folder(self) -> list[Path]:
        if self._folder is None or not self._folder.is_dir():
            return []
        return sorted(path for path in self._folder.iterdir() if path.suffix in _SUFFIXES and path.is_file())

    def _fresh(self, files: tuple[Path, ...]) -> tuple[_Stamp, LoadedFiles]:
        stamp = tuple(map(_stamp, (*self._defaults, *files)))
        known = self._read.get(files)
        return known if known and known[0] == stamp else (stamp, self._load(files))

    def _load(self, files: tuple[Path, ...]) -> LoadedFiles:
        try:
            return LoadedFiles(files, load_pipeline([*self._defaults, *files], variables=self._variables))
        except PipelineFileError as error:
            return LoadedFiles(files, fault=str(error))


def _named(found: Iterable[LoadedFiles]) -> Iterator[LoadedFiles]:
    """Gives each pipeline its id. A second one of it is a fault of its files: both would write the same progress."""
    seen: dict[str, LoadedFiles] = {}
    for loaded in found:
        pipeline = loaded.pipeline
        if pipeline is None:
            yield loaded
        elif (first := seen.setdefault(_id_of(pipeline), loaded)) is not loaded:
            names = ", ".join(map(str, first.files))
            yield LoadedFiles(
                loaded.files, fault=f"pipeline '{pipeline.name}', group '{pipeline.group}', is in {names} too"
            )
        else:
            yield replace(loaded, id=_id_of(pipeline))


def _id_of(pipeline: Pipeline) -> str:
    """The pipeline in addresses: nothing in it has a meaning there, and no other pipeline has it."""
    return ":".join(
        quote(text.replace("~", "~7E"), safe="~").replace("%", "~") for text in (pipeline.name, pipeline.group)
    )


def _stamp(path: Path) -> tuple[str, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return str(path), found.st_mtime_ns, found.st_size
