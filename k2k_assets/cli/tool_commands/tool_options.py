"""The options that all commands of `k2k-tool` share. As in K2K's tool, each `-f` is a pipeline of its own."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k2k_assets.cli import logs
from k2k_assets.cli.options import defaults_files, log_format, split_files, template_engine
from k2k_assets.cli.streams import error_console
from k2k_assets.cli.suggestions import remember_files
from k2k_assets.core.errors import PipelineFileError
from k2k_assets.core.log_fields import note

if TYPE_CHECKING:
    from k2k_assets.pipeline import Pipeline

F = TypeVar("F", bound=Callable[..., Any])

_LEVELS = ("error", "warning", "info", "debug")
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}
_SHORT = re.compile(r"(\d{1,9})\s*(ms|s|m|h)?", re.ASCII)
_LONG = re.compile(r"(\d{1,9})\s+(millisecond|second|minute|hour)s?", re.ASCII)
_EACH_ALONE = "Each -f is a pipeline of its own; write several files of one pipeline as -f base.yaml,override.yaml."


class _Duration(click.ParamType):  # type: ignore[type-arg]  # older releases of click refuse the argument
    """A duration: `10s`, `500ms`, or as in a pipeline file, `10 seconds`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Reads a duration."""
        if isinstance(value, timedelta):
            return value
        if short := _SHORT.fullmatch(str(value)):
            return timedelta(**{_UNITS[short[2] or "s"]: int(short[1])})
        if long := _LONG.fullmatch(str(value)):
            return timedelta(**{f"{long[2]}s": int(long[1])})
        raise click.BadParameter(f"expected a duration such as 10s or '10 seconds', found {value!r}", ctx, param)


@dataclass(frozen=True)
class ToolCall:
    """The shared options of a call.

    Attributes:
        pipelines: The files of each pipeline.
        defaults: Files that come before those of each pipeline.
        variables: Whether `${...}` is a variable.
        pull_timeout: Longest time for reading the commit topic; None: as in the file.
        verbosity: Lowest level of the log that is shown; None: the command decides.
    """

    pipelines: tuple[tuple[Path, ...], ...]
    defaults: tuple[Path, ...] = ()
    variables: bool = True
    pull_timeout: timedelta | None = None
    verbosity: str | None = None

    def show_log(self, *, quiet: bool = False) -> None:
        """Shows the log on standard error.

        Args:
            quiet: Whether to show only warnings and errors, unless `--verbosity` says otherwise.
        """
        logs.configure(error_console())
        level = self.verbosity or ("warning" if quiet else "info")
        logging.getLogger("k2k").setLevel(level.upper())

    def each(self) -> Iterator[Pipeline]:
        """Yields the pipelines one after another; messages name the files of the present one.

        Raises:
            PipelineFileError: One cannot be used; then it yields none.
        """
        loaded = [self._load(files) for files in self.pipelines]
        names = [(pipeline.name, pipeline.group) for pipeline in loaded]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise PipelineFileError(f"pipeline '{twice[0]}', group '{twice[1]}', was given twice. {_EACH_ALONE}")
        for files, pipeline in zip(self.pipelines, loaded, strict=True):
            remember_files("-f", files)
            note(pipeline=pipeline.name)
            yield pipeline

    def one(self) -> Pipeline:
        """The only pipeline.

        Raises:
            UsageError: The call has several pipelines.
        """
        if len(self.pipelines) > 1:
            raise click.UsageError(f"expected one pipeline. {_EACH_ALONE}")
        return next(self.each())

    def _load(self, files: Sequence[Path]) -> Pipeline:
        from k2k_assets.pipeline import load_pipeline

        remember_files("-f", files)
        try:
            pipeline = load_pipeline([*self.defaults, *files], variables=self.variables)
        except PipelineFileError as error:
            if len(self.pipelines) == 1:
                raise
            raise PipelineFileError(f"{error}\n{_EACH_ALONE}") from None
        return pipeline if self.pull_timeout is None else _with_sync_timeout(pipeline, self.pull_timeout)


def _with_sync_timeout(pipeline: Pipeline, timeout: timedelta) -> Pipeline:
    commit = pipeline.coordination.commit.model_copy(update={"sync_timeout": timeout})
    coordination = pipeline.coordination.model_copy(update={"commit": commit})
    return pipeline.model_copy(update={"coordination": coordination})


def _split(_: click.Context, __: click.Parameter, values: Sequence[Path]) -> tuple[tuple[Path, ...], ...]:
    return tuple(split_files([value]) for value in values)


def pipelines_option(required: bool) -> Callable[[F], F]:
    """`-f` of K2K's tool: parameter `pipelines`, the files of each pipeline."""
    return click.option(
        "-f", "--file", "pipelines", metavar="FILE",
        multiple=True, required=required, type=click.Path(dir_okay=False, path_type=Path), callback=_split,
        help="Pipeline file. Several with commas: merged into one, later files over earlier ones. Repeated: "
        "several pipelines.",
    )  # fmt: skip


def tool_options(command: F) -> F:
    """`-f`, `-d`, `-g`, `-i` and `--verbosity` of K2K's tool, as parameter `call`."""

    @wraps(command)
    def with_call(
        pipelines: tuple[tuple[Path, ...], ...],
        defaults: tuple[Path, ...],
        variables: bool,
        pull_timeout: timedelta | None,
        verbosity: str | None,
        **own: Any,
    ) -> Any:
        return command(call=ToolCall(pipelines, defaults, variables, pull_timeout, verbosity), **own)

    options: tuple[Callable[[Any], Any], ...] = (
        pipelines_option(required=True),
        defaults_files,
        template_engine,
        click.option(
            "-i", "--pull-timeout", type=_Duration(), metavar="DURATION",
            help="Longest time for reading the commit topic to its end, such as 10s; by default as in the file.",
        ),
        log_format,
        click.option("--verbosity", type=click.Choice(_LEVELS), help="Lowest level of the log that is shown."),
    )  # fmt: skip
    given: Any = with_call
    for option in reversed(options):
        given = option(given)
    result: F = given
    return result
