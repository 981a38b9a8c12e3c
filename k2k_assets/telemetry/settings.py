"""What the standard environment variables of OpenTelemetry say. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from k2k_assets.core.errors import Refused

EXPORTERS = ("prometheus", "otlp", "kafka", "console", "none")
_HOST, _PORT = "OTEL_EXPORTER_PROMETHEUS_HOST", "OTEL_EXPORTER_PROMETHEUS_PORT"
_WHICH = "OTEL_METRICS_EXPORTER"
SIGNAL_EXPORTERS = ("otlp", "console", "none")
_TRACES, _LOGS = "OTEL_TRACES_EXPORTER", "OTEL_LOGS_EXPORTER"
_OTLP_ADDRESSES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
_MOST_PORT = 65535
# K2K's own.
_EVERYWHERE = "0.0.0.0"
REPLICATOR_PORT, MAPPER_PORT = 9090, 9091

Exporter = TypeVar("Exporter")


class TelemetrySettings(NamedTuple):
    """Where metrics go.

    Attributes:
        exporters: Some of `EXPORTERS`; never `none`.
        host: Address at which the Prometheus endpoint listens.
        port: Its port; 0: any that is free.
        traces: Some of `SIGNAL_EXPORTERS`, where traces go; never `none`.
        logs: Likewise.
    """

    exporters: tuple[str, ...]
    host: str
    port: int
    traces: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()

    @classmethod
    def read(
        cls, environment: Mapping[str, str], port: int = REPLICATOR_PORT, own_port: int | None = None
    ) -> TelemetrySettings:
        """Reads them.

        Without `OTEL_METRICS_EXPORTER` metrics go to the OTLP collector that the environment names, if it names one,
        else they can be scraped. Traces and logs go nowhere unless their variables say where.

        Args:
            environment: Has the variables.
            port: Port of the Prometheus endpoint where nobody names one.
            own_port: Port that the pipeline file names; it counts before that of the environment.

        Raises:
            Refused: A variable has a value that nothing here understands.
        """
        default = "otlp" if any(environment.get(name) for name in _OTLP_ADDRESSES) else "prometheus"
        said = environment.get(_WHICH, "").strip() or default
        return cls(
            _exporters(_WHICH, said, EXPORTERS),
            environment.get(_HOST, "").strip() or _EVERYWHERE,
            _port(environment.get(_PORT, "").strip() or str(port)) if own_port is None else own_port,
            *(_exporters(name, environment.get(name, ""), SIGNAL_EXPORTERS) for name in (_TRACES, _LOGS)),
        )


def signal_exporters(
    chosen: Sequence[str], otlp: Callable[[], Exporter], console: Callable[[], Exporter]
) -> list[Exporter]:
    """Makes the exporters of traces or of logs.

    Args:
        chosen: `TelemetrySettings.traces` or `TelemetrySettings.logs`.
        otlp: Makes the one for OTLP; what it needs is imported only then.
        console: Makes the one for the console.
    """
    return [otlp() if exporter == "otlp" else console() for exporter in chosen]


def _exporters(variable: str, said: str, known: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in said.split(",") if name.strip()))
    for name in names:
        if name not in known:
            raise Refused(f"{variable}={said}: '{name}' is not among {', '.join(known)}")
    return tuple(name for name in names if name != "none")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _MOST_PORT):
        raise Refused(f"{_PORT}={text}: wanted is a port, from 0 (any that is free) to {_MOST_PORT}")
    return int(text)
