"""Exports metrics of runs that copy or move groups, where `metrics.dagsterRuns` of the pipeline file says so.

The next run takes over while this one still works, so an address that is taken is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from k2k_assets.core.errors import K2KError, Refused
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.driver.events import Listener, to_all

if TYPE_CHECKING:
    from k2k_assets.groups.report import PollFailed, PollResult
    from k2k_assets.replication.plan import ReportAddress

    GroupListener = Callable[[PollResult | PollFailed], None]


class CopyTelemetry:
    """What a run that copies hands to the replication.

    Args:
        listener: Hears of the events for the metrics; None where none are exported.
        reports: Where slots report to.
    """

    def __init__(self, listener: Listener | None = None, reports: ReportAddress | None = None) -> None:
        self._listener = listener
        self.reports = reports

    def beside(self, listener: Listener) -> Listener:
        """A listener, and that of the metrics."""
        return to_all(listener, self._listener) if self._listener else listener


@contextmanager
def copy_telemetry(pipeline: Pipeline) -> Iterator[CopyTelemetry]:
    """Exports metrics of a run that copies, if it is to.

    Raises:
        Refused: The extra `telemetry` is not installed, or the environment's variables make no sense.
    """
    if not pipeline.metrics.dagster_runs:
        yield CopyTelemetry()
        return
    _ensure_installed()
    from k2k_assets.telemetry.exporting import exporting

    with exporting(pipeline, waits=True) as exported:
        yield CopyTelemetry(exported.listener, exported.reports)


@contextmanager
def mapper_telemetry(pipeline: Pipeline) -> Iterator[Callable[[GroupListener], GroupListener]]:
    """Exports metrics of a run that moves groups, if it is to; yields what makes a listener that they hear too.

    Raises:
        Refused: The extra `telemetry` is not installed, or the environment's variables make no sense.
    """
    if not pipeline.metrics.dagster_runs:
        yield lambda listener: listener
        return
    _ensure_installed()
    from k2k_assets.groups.report import PollFailed  # it imports pyarrow: not for a run that copies
    from k2k_assets.telemetry.exporting import exporting_mapper

    with exporting_mapper(pipeline, waits=True) as metrics:

        def beside(listener: GroupListener) -> GroupListener:
            def listen(event: PollResult | PollFailed) -> None:
                listener(event)
                if isinstance(event, PollFailed):
                    metrics.troubled(K2KError(event.reason))
                else:
                    metrics.polled(event)

            return listen

        yield beside


def _ensure_installed() -> None:
    try:
        import opentelemetry.sdk.metrics  # noqa: F401
    except ModuleNotFoundError as missing:
        raise Refused(
            f"metrics.dagsterRuns needs OpenTelemetry, and {missing.name} is not installed: "
            "pip install 'k2k-assets[telemetry]'"
        ) from None
