"""Exports log lines of this process and of its slots by OpenTelemetry, with their fields as attributes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, ConsoleLogRecordExporter, LogRecordExporter
from opentelemetry.sdk.resources import Resource

from k2k_assets.core.log_fields import fields_of
from k2k_assets.replication.slot_reports import Greeting, LogLine, Report
from k2k_assets.telemetry.last_exports import LastExports
from k2k_assets.telemetry.settings import signal_exporters

_SEVERITIES = (
    (logging.CRITICAL, SeverityNumber.FATAL),
    (logging.ERROR, SeverityNumber.ERROR),
    (logging.WARNING, SeverityNumber.WARN),
    (logging.INFO, SeverityNumber.INFO),
    (logging.NOTSET, SeverityNumber.DEBUG),
)


class ExportedLogs(logging.Handler):
    """Exports lines of this process, and of slots that report theirs.

    Args:
        logger: Exports them.
    """

    def __init__(self, logger: Logger) -> None:
        super().__init__(logging.INFO)
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Exports a line of this process."""
        try:
            text = record.getMessage()
            if record.exc_info:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
            time_ns = int(record.created * 1e9)
            self._export(LogLine(time_ns, record.levelno, record.name, text, fields_of(record)))
        except Exception:
            self.handleError(record)

    def arrived(self, slot: Greeting) -> None:
        """Nothing."""

    def reported(self, slot: Greeting, report: Report) -> None:
        """Exports a line of a slot."""
        if isinstance(report, LogLine):
            self._export(report)

    def gone(self, slot: Greeting) -> None:
        """Nothing."""

    def _export(self, line: LogLine) -> None:
        severity = next(number for level, number in _SEVERITIES if line.level >= level)
        attributes = {"logger": line.logger, **line.fields}
        name = logging.getLevelName(line.level)
        self._logger.emit(
            LogRecord(
                timestamp=line.time,
                observed_timestamp=line.time,
                severity_text=name,
                severity_number=severity,
                body=line.text,
                attributes=attributes,
            )
        )


@contextmanager
def exporting_logs(
    exporters: tuple[str, ...], resource: Resource, last: LastExports | None = None
) -> Iterator[ExportedLogs | None]:
    """Exports log lines while the context lasts; yields what takes those of slots, None without exporters.

    Args:
        exporters: `TelemetrySettings.logs`.
        resource: Who exports.
        last: Ends the exporters; None: they have the time for all.
    """
    if not exporters:
        yield None
        return
    provider = LoggerProvider(resource, shutdown_on_exit=False)
    for exporter in signal_exporters(exporters, _otlp, ConsoleLogRecordExporter):
        provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    handler = ExportedLogs(provider.get_logger("k2k_assets"))
    ours = logging.getLogger("k2k")
    ours.addHandler(handler)
    try:
        yield handler
    finally:
        ours.removeHandler(handler)
        (last or LastExports()).end(provider.shutdown)


def _otlp() -> LogRecordExporter:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

    return OTLPLogExporter()
