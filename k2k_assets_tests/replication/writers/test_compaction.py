"""G6 on an assignment topic that the broker's real cleaner compacts as early as possible."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.pipeline import Pipeline
from k2k_assets.replication.extent import Continuous
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, end_offsets, read_all, speed_up_compaction, unique
from k2k_assets_tests.support.copies.copying import PROCESSES, copy
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.copies.takeovers import Flow, assert_all_copied, assignments, copied_to, held_by

pytestmark = [pytest.mark.integration, pytest.mark.own_clusters, pytest.mark.storm]

SECONDS = 60.0
PARTITIONS = 4
# Segments close at nearly each record and are cleaned at once; the next cleaning removes tombstones.
EAGER = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "200",
    "delete.retention.ms": "0",
}


class Instance:
    """A continuous copy in a process of its own, driver and slots."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._stop = PROCESSES.Event()
        self._process = PROCESSES.Process(target=_copy_until, args=(pipeline, self._stop), daemon=True)
        self._process.start()

    def leave(self) -> None:
        """Ends it as a signal does: it releases what it holds."""
        self._stop.set()
        self._process.join(SECONDS)
        assert self._process.exitcode == 0

    def kill(self) -> None:
        """Ends it without a word."""
        self._process.kill()
        self._process.join(SECONDS)

    def freeze(self) -> None:
        """Lets it sleep; its clients too."""
        os.kill(self._pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets it go on."""
        os.kill(self._pid, signal.SIGCONT)

    @property
    def _pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid


def _copy_until(pipeline: Pipeline, stop: Any) -> None:
    told = threading.Event()

    def listen() -> None:
        stop.wait()
        told.set()

    threading.Thread(target=listen, daemon=True).start()
    copy(pipeline, Continuous(), stop=told)


class CompactionFixture:
    """A pipeline whose claims are compacted all the time, and what is known of them.

    Args:
        clusters: Both.
        directory: For the pipeline file.
        names: How many names instances go by, in turn. With one, whoever begins claims the ids of the one before, who
            is fenced by that; with two, the one before releases what it holds, after the new claims.
        mode: `features.exactlyOnce`.
    """

    def __init__(self, clusters: KafkaSandbox, directory: Path, names: int, mode: str) -> None:
        self._clusters = clusters
        self._names = names
        topic = create_topic(clusters.source_servers, unique("taken"), PARTITIONS)
        self.claims_topic = create_topic(clusters.target_servers, unique("claims"), config=EAGER)
        self.pipeline = make_pipeline(
            directory,
            clusters.source_servers,
            clusters.target_servers,
            [topic],
            features={"exactlyOnce": mode, "offsetMapping": "enabled", "headerReplication": "enabled"},
            coordination={"assignment": {"topic": self.claims_topic, "graceWindow": "2 seconds"}},
        )
        self._flow = Flow(clusters, topic, PARTITIONS)
        self._instances: list[Instance] = []

    def begin(self) -> Instance:
        """One more instance; returned when it holds everything."""
        newest = self.generation
        name = f"{self.pipeline.name}-{len(self._instances) % self._names}"
        self._instances.append(Instance(self.pipeline.model_copy(update={"name": name})))
        wait_until(lambda: self._holder() > newest, SECONDS, "it to hold all partitions")
        return self._instances[-1]

    def copy_some(self) -> None:
        """Somebody has to copy what is written now."""
        self._flow.write(10)
        wait_until(lambda: copied_to(self.pipeline, self._clusters) == self._flow.written, SECONDS, "all to be copied")

    def await_compaction(self, gone: set[int]) -> None:
        """Returns when the cleaner has removed these claims, and has left those of whoever holds the partitions."""
        assert gone
        wait_until(
            lambda: not gone & self._offsets() and self._holder() >= 0, SECONDS, "the dead claims alone to be gone"
        )

    def held(self) -> set[int]:
        """Where the claims lie that hold."""
        return {claim.offset for claim in assignments(self._clusters, self.pipeline).claims.values()}

    @property
    def generation(self) -> int:
        """The newest one that holds something; -1 if none does."""
        claims = assignments(self._clusters, self.pipeline).claims.values()
        return max((claim.generation for claim in claims), default=-1)

    def assert_copied(self, slept: bool = False) -> None:
        """All that was written was copied, as the mode promises; and most of the assignment topic is gone.

        Args:
            slept: Whether an instance was overtaken while it slept: at least once what it had queued may come late.
        """
        assert assert_all_copied(self._clusters, self.pipeline, overtaken=slept) == self._flow.written
        (end,) = end_offsets(self._clusters.target_servers, self.claims_topic).values()
        assert len(self._offsets()) < end / 2

    def kill_all(self) -> None:
        """Of whatever is left."""
        for instance in self._instances:
            instance.kill()

    def _holder(self) -> int:
        return held_by(self._clusters, self.pipeline, PARTITIONS)

    def _offsets(self) -> set[int]:
        servers = self._clusters.target_servers
        return {record.offset for record in read_all(servers, self.claims_topic, isolation="read_uncommitted")}


@pytest.fixture(params=[(names, mode) for names in (1, 2) for mode in ("enabled", "disabled")])
def fixture(clusters: KafkaSandbox, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CompactionFixture]:
    speed_up_compaction(clusters.target_servers)
    made = CompactionFixture(clusters, tmp_path, *request.param)
    yield made
    made.kill_all()


def test_instances_take_over_from_each_other(fixture: CompactionFixture) -> None:
    """Each finds only what the cleaner has left: after one that lives, one that was killed, and one that has left."""
    older = fixture.begin()
    for _ in range(3):
        claims = fixture.held()
        newer = fixture.begin()  # from one that lives
        fixture.copy_some()
        fixture.await_compaction(claims)
        older.leave()

        claims = fixture.held()
        newer.kill()
        older = fixture.begin()
        fixture.copy_some()
        fixture.await_compaction(claims)

        claims = fixture.held()
        newer = fixture.begin()
        fixture.copy_some()
        fixture.await_compaction(claims)
        claims = fixture.held()
        newer.leave()
        fixture.copy_some()  # the instance that stood by continues
        fixture.await_compaction(claims)
    older.leave()
    fixture.assert_copied()


def test_a_stand_by_that_sleeps_while_claims_and_releases_are_compacted_away(fixture: CompactionFixture) -> None:
    """It knows of a claim whose release it will never read, and goes on all the same."""
    sleeper = fixture.begin()
    fixture.copy_some()
    other = fixture.begin()
    fixture.copy_some()
    claims = fixture.held()
    sleeper.freeze()
    other.leave()
    third = fixture.begin()
    fixture.copy_some()
    fixture.await_compaction(claims)
    claims = fixture.held()
    third.kill()
    fourth = fixture.begin()
    fixture.await_compaction(claims)
    fourth.leave()
    sleeper.thaw()
    fixture.copy_some()
    sleeper.leave()
    fixture.assert_copied(slept=True)
