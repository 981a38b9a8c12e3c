"""An endpoint whose address is taken, and metrics with very many series."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest
from opentelemetry.sdk.resources import Resource

from k2k_assets.core.deadline import wait_until
from k2k_assets.core.errors import Refused
from k2k_assets.telemetry.endpoint import endpoint
from k2k_assets.telemetry.health import HealthWatch
from k2k_assets.telemetry.mapper_health import MapperWatch
from k2k_assets.telemetry.metering import metering
from k2k_assets.telemetry.settings import TelemetrySettings
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.services.http_server import json_answer


def test_it_answers_when_whoever_has_the_address_has_ended() -> None:
    first, second = HealthWatch().health, MapperWatch(1.0).health
    with endpoint("127.0.0.1", 0, first) as address:
        port = int(address.rpartition(":")[2])
        with pytest.raises(Refused, match="cannot listen"), endpoint("127.0.0.1", port, second):
            pass
        with endpoint("127.0.0.1", port, second, waits=True) as same:
            assert same == address
        waiting = endpoint("127.0.0.1", port, second, waits=True)
        waiting.__enter__()
        try:
            assert "lag" in json_answer(address, "/health")[1], "the first one answers"
        except BaseException:
            waiting.__exit__(None, None, None)
            raise
    try:

        def answers() -> bool:
            try:
                return "attention" in json_answer(address, "/health")[1]
            except OSError:
                return False

        wait_until(answers, 120, "the second one to answer")
    finally:
        waiting.__exit__(None, None, None)
    with pytest.raises(OSError, match="refused"):
        json_answer(address, "/live")


def test_another_error_than_a_taken_address_is_refused_at_once() -> None:
    with pytest.raises(Refused, match="cannot listen"), endpoint("192.0.2.1", 0, HealthWatch().health, waits=True):
        pass


def test_two_instances_in_a_process_have_metrics_of_their_own_and_no_series_is_left_out(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["orders"])
    settings = TelemetrySettings(("prometheus",), "127.0.0.1", 0)
    addresses: list[str] = []

    def scraped(address: str) -> list[str]:
        with urllib.request.urlopen(f"{address}/metrics", timeout=10) as answer:
            return [line for line in answer.read().decode().splitlines() if line.startswith("one_total")]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("k2k_assets.telemetry.metering._log.info", lambda _, address: addresses.append(address))
        health = HealthWatch().health
        with (
            metering(pipeline, settings, health, Resource({})) as one,
            metering(pipeline, settings, health, Resource({})) as other,
        ):
            counters = [meter.create_counter("one") for meter, _ in (one, other)]
            for partition in range(2500):
                counters[0].add(1, {"partition": partition})
            counters[1].add(7, {"partition": 0})
            first, second = map(scraped, addresses)
    assert len(first) == 2500
    assert not any("overflow" in line for line in first)
    assert [line.rpartition(" ")[2] for line in second] == ["7.0"]
