"""Which living instances hold the partitions of an override, from the records that are read meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.control.assignment_records import (
    PARTITION,
    Claim,
    InstanceRecord,
    heartbeat_key,
    instance_key,
    instance_value,
    time_value,
)
from k2k_assets.control.commit_log import now_ms
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.overrides.holders import Holders, live_holders
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.fake_cluster import FakeCluster
from k2k_assets_tests.support.memory.fake_log import FakeLog, play

GROUP, GENERATION = "k2k.g", 0
P, Q = TopicPartition("orders", 0), TopicPartition("orders", 1)
WANTED = {("s", 0): P, ("s", 1): Q}
INSTANCE = InstanceRecord("i", "p", 2, "c", "host", 11, 1)
WHO = "pipeline p on host, process 11"

Written = tuple[bytes, bytes | None]


def claim(partition: int, slot: int = 0) -> Claim:
    return Claim("s", partition, f"id-{slot}", f"claim-{partition}", GENERATION, slot, "orders")


def heartbeat(slot: int) -> Written:
    """One whose writer's clock is right: that it is young proves nothing, as clocks of others may be wrong."""
    return heartbeat_key(GROUP, GENERATION, slot), time_value(now_ms())


class Watch:
    """An override that begins after records were written, and those that are written while it watches."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        window = {"assignment": {"topic": "claims", "graceWindow": "600 milliseconds"}}
        self._pipeline = make_pipeline(
            directory, "a:1", "b:1", ["orders"], consumer={"group.id": GROUP}, coordination=window
        )
        self._monkeypatch = monkeypatch

    def holders(self, before: list[Written], meanwhile: list[Written]) -> Holders:
        cluster = FakeCluster({"claims": ("a-id", 1)}, starts={}, ends={TopicPartition("claims", PARTITION): 0})
        real = FakeLog.__init__

        def written(log: FakeLog, *arguments: object, **named: object) -> None:
            real(log, *arguments, **named)  # type: ignore[arg-type]
            cluster._offsets["latest"] = {TopicPartition("claims", PARTITION): len(before)}
            for records in ([*before], [*meanwhile]):
                if records:
                    log.write(*records)

        self._monkeypatch.setattr(FakeLog, "__init__", written)
        return live_holders(self._pipeline, cluster, WANTED)  # type: ignore[arg-type]


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    play(monkeypatch)
    return Watch(tmp_path, monkeypatch)


ANNOUNCED = (instance_key(GROUP, "i"), instance_value(INSTANCE))
CLAIMED = [(c.key_bytes(GROUP), c.value_bytes(1)) for c in (claim(0), claim(1, slot=1))]


def test_who_writes_a_heartbeat_while_it_is_watched_holds_all_that_its_slots_have_claimed(watch: Watch) -> None:
    assert watch.holders([ANNOUNCED, *CLAIMED], [heartbeat(1)]) == {WHO: [P, Q]}


def test_who_shows_no_sign_until_the_heartbeat_timeout_is_dead(watch: Watch) -> None:
    """However young its last heartbeat is by the clock of its machine."""
    assert watch.holders([ANNOUNCED, *CLAIMED, heartbeat(0)], []) == {}


def test_what_is_released_is_held_by_nobody(watch: Watch) -> None:
    release = [(c.key_bytes(GROUP), None) for c in (claim(0), claim(1, slot=1))]
    assert watch.holders([ANNOUNCED, *CLAIMED], [*release, heartbeat(0)]) == {}


def test_other_partitions_are_no_matter(watch: Watch) -> None:
    other = claim(7)
    assert watch.holders([(other.key_bytes(GROUP), other.value_bytes(1))], [heartbeat(0)]) == {}


def test_one_that_was_never_announced_is_told_by_its_generation(watch: Watch) -> None:
    first = CLAIMED[0]
    assert watch.holders([first], [heartbeat(0)]) == {"the instance of generation 0": [P]}
