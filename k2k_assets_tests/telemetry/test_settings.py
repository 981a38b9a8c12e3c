"""What the standard variables of OpenTelemetry say."""

from __future__ import annotations

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.telemetry.settings import TelemetrySettings

WHICH, HOST, PORT = "OTEL_METRICS_EXPORTER", "OTEL_EXPORTER_PROMETHEUS_HOST", "OTEL_EXPORTER_PROMETHEUS_PORT"


@pytest.mark.parametrize(
    ("environment", "exporters"),
    [
        ({}, ("prometheus",)),
        ({WHICH: " "}, ("prometheus",)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, ("otlp",)),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://collector:4318/v1/metrics"}, ("otlp",)),
        ({WHICH: "prometheus, otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, ("prometheus", "otlp")),
        ({WHICH: "console,console"}, ("console",)),
        ({WHICH: "none"}, ()),
    ],
)
def test_where_metrics_go(environment: dict[str, str], exporters: tuple[str, ...]) -> None:
    assert TelemetrySettings.read(environment).exporters == exporters


def test_the_endpoint_is_where_that_of_k2k_is() -> None:
    assert TelemetrySettings.read({})[1:] == ("0.0.0.0", 9090, (), ())
    assert TelemetrySettings.read({HOST: "127.0.0.1", PORT: "0"})[1:3] == ("127.0.0.1", 0)


def test_the_port_of_the_file_counts_before_that_of_the_environment() -> None:
    assert TelemetrySettings.read({PORT: "1234"}, own_port=5678).port == 5678
    assert TelemetrySettings.read({PORT: "1234"}, own_port=0).port == 0
    assert TelemetrySettings.read({PORT: "1234"}, 9091).port == 1234
    assert TelemetrySettings.read({}, 9091).port == 9091


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({WHICH: "prometheus,statsd"}, "'statsd' is not among prometheus, otlp, kafka, console, none"),
        ({PORT: "metrics"}, "OTEL_EXPORTER_PROMETHEUS_PORT=metrics: wanted is a port"),
        ({PORT: "65536"}, "wanted is a port"),
        ({PORT: "-1"}, "wanted is a port"),
    ],
)
def test_what_nobody_understands_is_refused(environment: dict[str, str], said: str) -> None:
    with pytest.raises(Refused, match=said):
        TelemetrySettings.read(environment)
