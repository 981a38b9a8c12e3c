"""Registries behind TLS, passwords, tokens and client certificates; a wrong one stops the topic, loudly and soon."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2k_assets.cli.main import run
from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.deadline import wait_until
from k2k_assets.core.stops.reasons.schemas import RegistryLoginRefused
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.registry import registry_patience
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.registry import SandboxRegistry
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import Running, commit_records, copy, told
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.copies.schema_records import KINDS
from k2k_assets_tests.support.services.guarded_registry import GuardedRegistry

pytestmark = [pytest.mark.integration, pytest.mark.slow]

USER, PASSWORD, TOKEN = "k2k", "registry-password-4711", "registry-token-4711"
PREFIX = "schema.registry."


class Doors:
    """Topics and pipelines between two registries, the target's behind a door."""

    def __init__(
        self, clusters: KafkaSandbox, registries: tuple[SandboxRegistry, SandboxRegistry], folder: Path
    ) -> None:
        self.source, self.target = clusters.source_servers, clusters.target_servers
        self._registries, self._folder = registries, folder
        self.topic = create_topic(self.source, unique("orders"))
        self.write(0, 5)

    def write(self, first: int, end: int) -> None:
        write = KINDS[0].writer(self._registries[0].url, self.topic)
        produce(self.source, self.topic, [write(n) for n in range(first, end)])

    def write_by_turns(self, count: int) -> None:
        """Records of two schemas, one of which is of another topic."""
        subjects = zip(KINDS, (self.topic, unique("another")), strict=False)
        writers = [kind.writer(self._registries[0].url, topic) for kind, topic in subjects]
        produce(self.source, self.topic, [write(n) for n in range(count) for write in writers])

    def guard(self, of: int = 1, **wanted: Any) -> GuardedRegistry:
        """A door of the target's registry, or (`of=0`) of the source's."""
        return GuardedRegistry(self._folder / f"guard-{of}", self._registries[of].url, **wanted)

    def pipeline(self, guard: GuardedRegistry, mode: str = "enabled", **config: str) -> Path:
        trusted = {f"{PREFIX}ssl.truststore.type": "PEM", f"{PREFIX}ssl.truststore.location": str(guard.authority_file)}
        features = {"exactlyOnce": mode, "offsetMapping": "enabled", "schemaMapping": "enabled"}
        config = {name: value for name, value in {**trusted, **config}.items() if value}
        return write_pipeline(
            self._folder, self.source, self.target, [self.topic], sink={"prefix": "copy."}, features=features,
            source={
                "kafka": {"common": {"bootstrap.servers": self.source}, "consumer": {"group.id": unique("k2k.group")}},
                "registry": {"config": {f"{PREFIX}url": self._registries[0].url}},
            },
            target={
                "kafka": {"common": {"bootstrap.servers": self.target}},
                "registry": {"config": {f"{PREFIX}url": guard.url, **config}},
            },
        )  # fmt: skip

    def decoded(self) -> list[int]:
        name = f"copy.{self.topic}"
        read = KINDS[0].reader(self._registries[1].url, name)
        return [read(record.value or b"") for record in read_all(self.target, name)]

    def stop(self, pipeline: Pipeline) -> CommitRecord:
        return commit_records(pipeline, self.target)[-1]


@pytest.fixture
def doors(
    clusters: KafkaSandbox, registries: tuple[SandboxRegistry, SandboxRegistry], tmp_path: Path
) -> Iterator[Doors]:
    yield Doors(clusters, registries, tmp_path)
    for registry in registries:
        registry.resume()


BASIC = {f"{PREFIX}basic.auth.credentials.source": "USER_INFO", f"{PREFIX}basic.auth.user.info": f"{USER}:{PASSWORD}"}
BEARER = {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": TOKEN,
          "bearer.auth.logical.cluster": "lsrc-1", "bearer.auth.identity.pool.id": "pool-1"}  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "config"),
    [({}, {}), ({"user": (USER, PASSWORD)}, BASIC), ({"token": TOKEN}, BEARER), ({"asks_for_certificate": True}, None)],
    ids=["TLS", "password", "token", "certificate"],
)
def test_a_pipeline_is_let_in(doors: Doors, wanted: dict[str, Any], config: dict[str, str] | None) -> None:
    with doors.guard(**wanted) as guard:
        given = config
        if given is None:
            given = {f"{PREFIX}ssl.keystore.type": "PEM", f"{PREFIX}ssl.keystore.location": str(guard.client_file)}
        path = doors.pipeline(guard, **given)
        assert run(["validate", "--connect", "-f", str(path)]) == 0
        assert copy(load_pipeline([path])).stopped == {}
        assert guard.let_in > 0
        assert guard.refused == 0
    assert doors.decoded() == list(range(5))


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
@pytest.mark.parametrize(
    ("wanted", "config", "said"),
    [
        ({"user": (USER, PASSWORD)}, {**BASIC, f"{PREFIX}basic.auth.user.info": f"{USER}:wrong"}, "(401)"),
        ({"token": TOKEN}, {**BEARER, "bearer.auth.token": "wrong"}, "(401)"),
        ({}, {f"{PREFIX}ssl.truststore.location": "", f"{PREFIX}ssl.truststore.type": ""}, "over TLS"),
        ({"asks_for_certificate": True}, {}, "over TLS"),
    ],
    ids=["password", "token", "authority", "certificate"],
)
def test_who_is_not_let_in_is_stopped(
    doors: Doors,
    wanted: dict[str, Any],
    config: dict[str, str],
    said: str,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry_patience, "PAUSES", (0.5, 1.0))
    with doors.guard(**wanted) as guard:
        path = doors.pipeline(guard, mode, **config)
        pipeline = load_pipeline([path])
        assert run(["validate", "--connect", "-f", str(path)]) == 3
        began = time.monotonic()
        outcome = copy(pipeline)
        assert time.monotonic() - began < 120
        words = told(outcome)[doors.topic]
        assert "[registry-login-refused]" in words
        assert said in words
        assert "See target.registry.config. Correct registry.config of that cluster" in words
        assert "wrong" not in words.replace("WRONG_VERSION", "")
        assert guard.refused <= 10, "it is not tried again and again"
        reason = doors.stop(pipeline).reason
        assert isinstance(reason, RegistryLoginRefused)
        assert reason.offset == 0
        assert read_all(doors.target, f"copy.{doors.topic}") == []


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_the_password_of_a_url_is_sent_and_shown_nowhere(
    doors: Doors,
    mode: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(registry_patience, "PAUSES", (0.5,))
    caplog.set_level("INFO")
    with doors.guard(user=(USER, "another")) as guard:
        url = guard.url.replace("://", f"://{USER}:{PASSWORD}@")
        config = {f"{PREFIX}url": url, f"{PREFIX}basic.auth.credentials.source": "URL"}
        path = doors.pipeline(guard, mode, **config)
        pipeline = load_pipeline([path])
        assert run(["validate", "--connect", "-f", str(path)]) == 3
        outcome = copy(pipeline, cores=1)
        assert "[registry-login-refused]" in told(outcome)[doors.topic]
        assert isinstance(doors.stop(pipeline).reason, RegistryLoginRefused)
        stored = [record.value_bytes() for record in commit_records(pipeline, doors.target)]
        shown = f"{told(outcome)} {stored} {caplog.text} {capsys.readouterr()}"
        assert guard.url in shown
        assert PASSWORD not in shown
        guard.user = (USER, PASSWORD)
        assert copy(pipeline, cores=1).stopped == {}
        assert PASSWORD not in caplog.text
    assert doors.decoded() == list(range(5))


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_a_slot_writes_heartbeats_while_slow_registries_are_asked(doors: Doors, mode: str) -> None:
    """Each request takes two and a half seconds, and others would take over after seven."""
    with doors.guard() as guard:
        guard.seconds = 2.5
        path = doors.pipeline(guard, mode)
        document = yaml.safe_load(path.read_text())
        document["coordination"]["assignment"]["graceWindow"] = "7 seconds"
        path.write_text(yaml.safe_dump(document))
        pipeline = load_pipeline([path])
        assert copy(pipeline, cores=1).stopped == {}
        assert guard.let_in * guard.seconds > 7
    beats = [
        record.timestamp / 1000
        for record in read_all(doors.target, pipeline.coordination.assignment.topic)
        if json.loads(record.key or b"{}")["kind"] in ("claim", "beat")
    ]
    assert max(after - before for before, after in pairwise(beats)) < 7
    assert doors.decoded() == list(range(5))


def test_headers_are_sent_and_no_size_of_a_cache_makes_it_ask_twice(doors: Doors) -> None:
    """Records of two schemas by turns, and a cache for one: each is asked for once all the same."""
    doors.write_by_turns(5)
    with doors.guard() as target, doors.guard(of=0) as source:
        path = doors.pipeline(target)
        document = yaml.safe_load(path.read_text())
        trusted = {
            f"{PREFIX}ssl.truststore.type": "PEM",
            f"{PREFIX}ssl.truststore.location": str(source.authority_file),
        }
        document["source"]["registry"]["config"] = {f"{PREFIX}url": source.url, **trusted}
        for side in ("source", "target"):
            document[side]["registry"].update(headers={"X-Tenant": f"of the {side}"}, cacheSize=1)
        document["schemaMapping"] = {"topics": [{"pattern": ".*", "value": "enabled"}]}
        path.write_text(yaml.safe_dump(document))
        pipeline = load_pipeline([path])
        assert len([line for line in pipeline.warnings if "registry.cacheSize: each schema is asked" in line]) == 2
        assert copy(pipeline, cores=1).stopped == {}
        for side, guard in (("source", source), ("target", target)):
            assert {headers["X-Tenant"] for _, headers in guard.asked} == {f"of the {side}"}
        schemas = Counter(
            request for request, _ in source.asked if re.fullmatch(r"GET \S*/schemas/ids/\d+(\?\S*)?", request)
        )
        assert sorted(schemas.values()) == [1, 1]
    assert len(read_all(doors.target, f"copy.{doors.topic}")) == 15


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
def test_a_refusal_that_passes_stops_nothing(doors: Doors, mode: str) -> None:
    """What the registry asks whether a password is right has just been restarted."""
    with doors.guard(user=(USER, PASSWORD)) as guard:
        pipeline = load_pipeline([doors.pipeline(guard, mode, **BASIC)])
        guard.user = (USER, "nobody knows yet")
        running = Running(pipeline, 1)
        wait_until(lambda: guard.refused >= 2 or running.error, 120, "two refusals")
        guard.user = (USER, PASSWORD)
        running.await_copied(5)
        running.end()
        assert [record.reason for record in commit_records(pipeline, doors.target) if record.reason] == []
    assert doors.decoded() == list(range(5))


def test_a_password_that_is_changed_while_the_copy_runs(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known already is copied on; the first new schema stops the topic there, and a new start goes on."""
    with doors.guard(user=(USER, PASSWORD)) as guard:
        pipeline = load_pipeline([doors.pipeline(guard, **BASIC)])
        running = Running(pipeline, 1)
        running.await_copied(5)
        guard.user = (USER, "another")
        doors.write(5, 8)
        running.await_copied(8)
        running.end()
        doors.write(8, 10)
        monkeypatch.setattr(registry_patience, "PAUSES", (0.5,))
        outcome = copy(pipeline)
        assert "[registry-login-refused]" in told(outcome)[doors.topic]
        assert doors.stop(pipeline).position == 8
        guard.user = (USER, PASSWORD)
        assert copy(pipeline).stopped == {}
    assert doors.decoded() == list(range(10))
