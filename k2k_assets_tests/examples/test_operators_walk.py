"""A replication as an operator runs it, from the wheel: install, watch, put right, roll to the next version."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, expect

from k2k_assets.core.deadline import wait_until
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import (
    client_settings,
    create_topic,
    delete_records,
    produce,
    producer,
    read_all,
    topics,
    unique,
)
from k2k_assets_tests.support.services.prometheus import Prometheus, prometheus
from k2k_assets_tests.support.services.promql import RULES
from k2k_assets_tests.support.services.systemd import Service, service
from k2k_assets_tests.support.services.tool_server import tool_server
from k2k_assets_tests.support.services.wheels import ROOT, built_wheel, install
from k2k_assets_tests.ui.conftest import PATIENCE_MS, browser

pytestmark = [
    pytest.mark.integration,
    pytest.mark.own_clusters,
    pytest.mark.spark,
    pytest.mark.ui,
    pytest.mark.prometheus,
    pytest.mark.storm,
]

__all__ = ["browser"]  # the fixture

UNIT = ROOT / "examples" / "deploy" / "systemd" / "k2k@.service"
PORT = {"OTEL_EXPORTER_PROMETHEUS_PORT": "0", "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1"}
RECORDS = 50
LONGEST_PAUSE = 2.0
_SECONDS = 120.0


def test_install_watch_put_right_and_roll(
    clusters: KafkaSandbox, tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)  # of the clone
    source, target = clusters.source_servers, clusters.target_servers
    prefix = unique("shop")
    orders, returns = (create_topic(source, f"{prefix}.{name}") for name in ("orders", "returns"))
    for topic in (orders, returns):
        produce(source, topic, [b"%d" % n for n in range(RECORDS)])

    # From the wheel, each version beside the other, in an environment of its own.
    wheel = built_wheel(_folder(tmp_path / "tree"))
    old, new = (install(wheel, tmp_path / "opt" / f"k2k-{version}") for version in ("0.1.0", "0.2.0"))
    where = "import k2k_assets; print(k2k_assets.__file__)"
    assert _ran(old / "python", "-P", "-c", where).startswith(str(tmp_path / "opt" / "k2k-0.1.0"))
    machines = [_machine(tmp_path / name) for name in ("one", "two")]
    file = _written(old, machines[0], clusters, prefix)
    for other in machines[1:]:
        (other / "etc/k2k/orders.yaml").write_text(file.read_text())
    assert _ran(old / "k2k", "validate", "-f", file).startswith("orders: the pipeline file is valid")

    with service(UNIT, "orders", machines[0], PORT, old) as first:
        _await_copied(target, {orders: RECORDS, returns: RECORDS}, first)
        with prometheus(_folder(tmp_path / "prometheus"), {"k2k": _endpoint(first)}, _impatient_rules()) as server:
            pause = partial(_ran, old / "k2k-tool", "pause", "-f", file, returns)
            resume = partial(_ran, old / "k2k-tool", "resume", "-f", file, returns)
            _alarmed(clusters, server, orders)
            _stopped(clusters, server, first, returns, pause, resume)
            _put_right(old, file, browser, returns)
            _await_copied(target, {orders: RECORDS + 1, returns: RECORDS + 2}, first)
            wait_until(lambda: not {"K2KTopicStopped", "K2KLagging"} & server.firing().keys(), _SECONDS, "calm")

        with Traffic(clusters, orders) as traffic, service(UNIT, "orders", machines[1], PORT, new) as second:
            wait_until(lambda: "standing by for 2 of 2" in first.log.read_text(), _SECONDS, "the old one to stand by")
            traffic.await_more(100)
            assert first.stop() == 0, first.log.read_text()
            with service(UNIT, "orders", machines[0], PORT, new) as again:
                wait_until(lambda: "standing by for 2 of 2" in second.log.read_text(), _SECONDS, "the hand-over back")
                traffic.await_more(100)
                traffic.stop()
                longest = traffic.longest_pause
                assert again.stop() == 0, again.log.read_text()
            assert second.stop() == 0, second.log.read_text()
    print(f"longest pause of the roll: {longest:.2f} s")
    assert longest < LONGEST_PAUSE
    values = [r.value for r in read_all(target, orders)]
    assert values == [r.value for r in read_all(source, orders)], "once, and in order"


def _alarmed(clusters: KafkaSandbox, server: Prometheus, topic: str) -> None:
    """The target is away for a while."""
    lag = f'max by (topic) (k2k_lag_seconds{{topic="{topic}"}})'

    def behind() -> float:
        return next(iter(server.query(lag).values()), -1.0)

    wait_until(lambda: behind() == 0, _SECONDS, "a scrape of a copy without lag")
    assert server.firing() == {}
    clusters.target.kill()
    produce(clusters.source_servers, topic, [b"late"])
    wait_until(lambda: behind() > 3, _SECONDS, "the lag in seconds to rise")
    wait_until(lambda: "K2KLagging" in server.firing(), _SECONDS, "the alert on lag")
    clusters.target.start()
    wait_until(lambda: behind() == 0, _SECONDS, "the copy to catch up")


def _stopped(
    clusters: KafkaSandbox,
    server: Prometheus,
    run: Service,
    topic: str,
    pause: Callable[[], object],
    resume: Callable[[], object],
) -> None:
    """It is paused for longer than its retention."""
    pause()
    paused = f'max by (topic) (k2k_topic_paused{{topic="{topic}"}})'
    wait_until(lambda: 1.0 in server.query(paused).values(), _SECONDS, "a scrape that says so")
    wait_until(lambda: f": paused: {topic}-0" in run.log.read_text(), _SECONDS, "its slot to leave it out")
    produce(clusters.source_servers, topic, [b"lost", b"late", b"later"])
    delete_records(clusters.source_servers, topic, 0, RECORDS + 1)
    resume()
    wait_until(lambda: "K2KTopicStopped" in server.firing(), _SECONDS, "the alert on the stopped topic")
    assert {(a["topic"], a["code"]) for a in server.firing()["K2KTopicStopped"]} == {(topic, "records-deleted")}


def _put_right(programs: Path, file: Path, browser: Browser, topic: str) -> None:
    """On the page, in two steps, beside the instance that runs."""
    expect.set_options(timeout=PATIENCE_MS)
    with tool_server("-f", file, command=(str(programs / "k2k-tool"), "server", "-p", "0")) as address:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(address)
        expect(page.get_by_text(f"{topic}-0 is stopped").first).to_be_visible()
        page.get_by_role("button", name="Put it right").first.click()
        page.get_by_role("button", name="Show what would change").click()
        expect(page.get_by_role("dialog").get_by_text(str(RECORDS + 1)).first).to_be_visible()
        page.get_by_role("button", name="Set", exact=True).click()
        expect(page.get_by_text("Set.", exact=True)).to_be_visible()
        page.close()


class Traffic:
    """Writes a record every 20 ms to the source, and watches when they arrive on the target.

    Args:
        clusters: Both.
        topic: The topic.
    """

    def __init__(self, clusters: KafkaSandbox, topic: str) -> None:
        self._clusters, self._topic = clusters, topic
        self._stop = threading.Event()
        self._arrived: list[float] = []
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._write, self._watch)]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        self.await_more(50)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends both."""
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def await_more(self, count: int) -> None:
        """Waits until so many more have arrived."""
        wanted = len(self._arrived) + count
        wait_until(lambda: len(self._arrived) >= wanted, _SECONDS, f"{count} more records")

    @property
    def longest_pause(self) -> float:
        """Seconds between two arrivals."""
        times = list(self._arrived)
        return max(later - one for one, later in pairwise(times))

    def _write(self) -> None:
        writer, number = producer(self._clusters.source_servers), 0
        while not self._stop.wait(0.02):
            writer.produce(self._topic, b"traffic %d" % number)
            writer.poll(0)
            number += 1
        writer.flush(30)

    def _watch(self) -> None:
        from confluent_kafka import Consumer, TopicPartition

        settings = {"group.id": "watch", "isolation.level": "read_committed", "enable.auto.commit": False}
        consumer = Consumer({**client_settings(self._clusters.target_servers), **settings})
        end = consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=30)[1]
        consumer.assign([TopicPartition(self._topic, 0, end)])
        while not self._stop.is_set():
            found = [m for m in consumer.consume(100, 0.1) if not m.error()]
            self._arrived += [time.monotonic()] * len(found)
        consumer.close()


def _folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def _machine(root: Path) -> Path:
    for folder in ("etc/k2k", "var/lib/k2k"):
        _folder(root / folder)
    return root


def _ran(program: Path, *arguments: str | Path) -> str:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _written(programs: Path, machine: Path, clusters: KafkaSandbox, prefix: str) -> Path:
    """The file that `k2k init` writes, for these topics."""
    file = machine / "etc/k2k/orders.yaml"
    at = "--source", clusters.source_servers, "--target", clusters.target_servers
    _ran(programs / "k2k", "init", file, *at, "--topics", f"{prefix}[.].*")
    document: dict[str, Any] = yaml.safe_load(file.read_text())
    document["sync"] = {"metadataInterval": "2 seconds"}
    document["spark"] = {"master": "local[2]"}
    file.write_text(yaml.safe_dump(document))
    return file


def _endpoint(run: Service) -> str:
    found = re.search(r"http://(127\.0\.0\.1:\d+)", run.log.read_text())
    assert found, run.log.read_text()
    return found[1]


def _await_copied(target: str, counts: dict[str, int], run: Service) -> None:
    def copied() -> bool:
        assert not run.ended.is_set(), run.log.read_text()
        there = topics(target)
        return all(topic in there and len(read_all(target, topic)) == count for topic, count in counts.items())

    wait_until(copied, _SECONDS, f"{counts} records", interval=0.3)


def _impatient_rules() -> dict[str, Any]:
    """The rules of the examples, with seconds in place of minutes."""
    rules: dict[str, Any] = yaml.safe_load(RULES.read_text())
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        rule["for"] = "0s"
        if rule["alert"] == "K2KLagging":
            rule["expr"] = rule["expr"].replace("> 60", "> 3")
    kept = ("K2KLagging", "K2KTopicStopped")
    for group in rules["groups"]:
        group["rules"] = [rule for rule in group["rules"] if rule["alert"] in kept]
    rules["groups"] = [group for group in rules["groups"] if group["rules"]]
    return rules
