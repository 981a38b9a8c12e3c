"""The environment of a storm: two brokers, the instances of a pipeline, a writer to the source."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from typing import Any, Literal

import yaml
from confluent_kafka import KafkaException, Producer

from k2k_assets.control.commit_record import CommitRecord
from k2k_assets.core.atomic_file import write_atomically
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.kafka.connection import Role
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.broker import Broker
from k2k_assets.sandbox.registry import SandboxRegistry
from k2k_assets_tests.storm import indexing
from k2k_assets_tests.storm.fleet import Fleet
from k2k_assets_tests.storm.groups import ReadingGroups
from k2k_assets_tests.storm.instances import Engine, Instance, copying, mapping_groups
from k2k_assets_tests.storm.journal import Journal
from k2k_assets_tests.storm.stages import Stages
from k2k_assets_tests.support.brokers.kafka import (
    SECONDS,
    ReadRecord,
    Record,
    add_partitions,
    admin,
    create_topic,
    delete_topic,
    read_all,
    send,
    unique,
)
from k2k_assets_tests.support.brokers.offsets_topic import OFFSETS_TOPIC
from k2k_assets_tests.support.copies.copying import UNREADABLE
from k2k_assets_tests.support.copies.numbered import NumberedWriter
from k2k_assets_tests.support.copies.unlucky import NONE, Mishap

HELD_MS = 8000
_WITH_EXECUTORS = 3
_OF_OTHERS = CommitRecord(
    group="other",
    cluster="c",
    source=TopicPartition("t", 0),
    kind="commit",
    pipeline="other",
    position=1,
    leader_epoch=None,
    source_topic_id="s",
    target_topic="t",
    target_topic_id="t",
    target_end=None,
    generation=1,
    slot=0,
    sequence=1,
    time=0,
)
Ending = Literal["commit", "abort", "leave"]
ENDINGS: tuple[Ending, ...] = ("commit", "abort", "leave")


class Environment:
    """The stage of a storm.

    Args:
        sandbox: The brokers.
        path: The pipeline file; instances of another slot count get a variant of it.
        engine: What the instances run on.
        forms: `transport.form` of the instances, in turns.
        prefix: Of the names of source topics.
        writer: Writes to the source.
        journal: Is told what happens.
        lasting: Shortest and longest time, in seconds, of what has to outlast time-outs.
        stages: Of the pipeline.
        groups: Those that read on the source.
        opposite: The environment of the pipeline whose target is this one's source, and the other way round. Its faults
            strike both.

    Attributes:
        label: Begins the names of its processes.
        copiers: Instances that copy.
        mappers: Those that translate the positions of consumer groups.
        gone: Source topics that were deleted, and the committed records that they held then.
    """

    def __init__(
        self,
        sandbox: KafkaSandbox,
        path: Path,
        engine: Engine,
        forms: Sequence[str],
        prefix: str,
        writer: NumberedWriter,
        journal: Journal,
        lasting: tuple[float, float],
        stages: Stages,
        groups: ReadingGroups,
        opposite: Environment | None = None,
    ) -> None:
        self.sandbox = sandbox
        self.prefix = prefix
        self.writer = writer
        self.groups = groups
        self.journal = journal
        self.pipeline: Pipeline = load_pipeline([path])
        self._path = path
        self._engine = engine
        self._forms = forms
        self._lasting = lasting
        self._stages = stages
        self._opposite = opposite
        self._followers: list[Environment] = []
        if opposite is not None:
            opposite._followers.append(self)
        self._registry_lock = threading.Lock()
        self._broker_locks = {"source": threading.Lock(), "target": threading.Lock()}
        self._trouble = dict.fromkeys(("source", "target", "registry"), time.monotonic())
        self.label = "opposite-" if opposite else ""
        self.copiers = Fleet(f"{self.label}instance", journal, self._troubled)
        self.mappers = Fleet(f"{self.label}mapper", journal, self._troubled)
        self.gone: dict[str, list[ReadRecord]] = {}
        self._open: Counter[str] = Counter()
        self._topics_lock = threading.Lock()
        self._over = threading.Event()
        self._index_lock = threading.Lock()

    # -- time ---------------------------------------------------------------------------------------------------

    def short(self, rng: random.Random) -> float:
        """Seconds of a disturbance that time-outs outlast."""
        return rng.uniform(0.1, 2.0)

    def long(self, rng: random.Random) -> float:
        """Seconds of one that outlasts time-outs, mostly."""
        return rng.uniform(*self._lasting)

    def rest(self, seconds: float) -> None:
        """Waits, unless the storm is over."""
        self._over.wait(seconds)

    def calm(self) -> None:
        """Ends all that lasts."""
        self._over.set()

    def stir(self) -> None:
        """Lets faults last again."""
        self._over.clear()

    # -- processes ----------------------------------------------------------------------------------------------

    def start_copier(self, slots: int, mishap: Mishap = NONE) -> Instance:
        """Starts one more instance that copies, with something wrong about it if wanted."""
        return self.copiers.start(self._copier(slots, mishap))

    def start_mapper(self) -> Instance:
        """Starts one more mapper of consumer groups."""
        return self.mappers.start(self._mapper())

    def keep_up(self, slots: int) -> None:
        """Takes note of processes that ended; of each kind one is started if none is left."""
        self.copiers.keep_up(self._copier(slots))
        if self._engine != "dagster":  # whose sensors have groups moved
            self.mappers.keep_up(self._mapper())

    def unexpected(self) -> list[str]:
        """Processes that ended without a fault that explains it."""
        return [*self.copiers.unexpected, *self.mappers.unexpected]

    def end(self) -> None:
        """Nothing lives on."""
        self.copiers.end()
        self.mappers.end()

    def _copier(self, slots: int, mishap: Mishap = NONE) -> Callable[[Path], Instance]:
        form = self._forms[self.copiers.started % len(self._forms)]
        path = self._path if self._engine == "dagster" else self._variant(slots, form)
        return lambda log: Instance(self._engine, copying(self._engine, path, slots, mishap), log)

    def _mapper(self) -> Callable[[Path], Instance]:
        return lambda log: Instance("mapper", mapping_groups(self._path), log)

    def _troubled(self, since: float) -> bool:
        opposite = self._opposite is not None and self._opposite._troubled(since)
        return opposite or max(self._trouble.values()) >= since

    def _variant(self, slots: int, form: str) -> Path:
        """Of instances with three slots the executors are processes of their own."""
        path = self._path.with_name(f"slots-{slots}-{form}.yaml")
        document = yaml.safe_load(self._path.read_text())
        document["configuration"] = {**document.get("configuration", {}), "partitionParallelism": slots}
        document["transport"] = {"form": form}
        if slots == _WITH_EXECUTORS:
            document["spark"]["master"] = "local-cluster[2,2,1024]"
        # Another instance may be about to read it.
        write_atomically(path, yaml.safe_dump(document, sort_keys=False))
        return path

    # -- topics -------------------------------------------------------------------------------------------------

    def topics(self) -> dict[str, int]:
        """Source topics and their partitions."""
        return dict(Counter(topic for topic, _ in self.writer.places))

    def all_topics(self) -> dict[str, list[str]]:
        """What is read and written, by the cluster's address."""
        pipeline, topics = self.pipeline, list(self.topics())
        control = [pipeline.coordination.assignment.topic, pipeline.coordination.commit.topic]
        copies = map(pipeline.routing.target_topic, topics)
        dead = self._stages.dead_letter_topics()
        on_target = [*copies, *control, *dead, pipeline.offset_mapping.topic, OFFSETS_TOPIC]
        return {self.sandbox.source_servers: topics, self.sandbox.target_servers: on_target}

    def add_topic(self, partitions: int) -> str:
        """One more source topic that the pipeline selects."""
        topic = unique(self.prefix)
        for each in (self, *self._followers):
            each._stages.note_topic(topic)
        create_topic(self.sandbox.source_servers, topic, partitions)
        self.writer.places += [(topic, partition) for partition in range(partitions)]
        return topic

    def add_partition(self, topic: str) -> None:
        """One more partition of a source topic."""
        count = self.topics()[topic]
        add_partitions(self.sandbox.source_servers, topic, count + 1)
        self.writer.places.append((topic, count))

    def delete_topic(self, topic: str) -> bool:
        """Deletes a source topic, unless a transaction of somebody else may be open in it.

        One that is copied both ways stays: the pipeline back would create it anew from its copy, and stop.

        Returns:
            Whether it is gone.
        """
        if self._opposite or self._followers:
            return False
        with self.writer.quiet():
            with self._topics_lock:
                if self._open[topic] or {topic} == set(self.topics()):
                    return False
                left = [place for place in self.writer.places if place[0] != topic]
                self.writer.places[:] = left
            self.gone[topic] = read_all(self.sandbox.source_servers, topic)
            delete_topic(self.sandbox.source_servers, topic)
        return True

    def follow(self, timeout: float = 1.0) -> bool:
        """Lets the writer write into the copies of the opposite pipeline's topics, as soon as they are there.

        Args:
            timeout: Seconds that the cluster may take to answer.

        Returns:
            Whether it writes into all of them.
        """
        wanted = self._opposite.topics() if self._opposite else {}
        if self.topics() == wanted:
            return True
        with suppress(KafkaException):
            there = admin(self.sandbox.source_servers).list_topics(timeout=timeout).topics
            found = {(topic, p) for topic in wanted if topic in there for p in there[topic].partitions}
            self.writer.places += sorted(found - set(self.writer.places))
        return self.topics() == wanted

    # -- the mapping index --------------------------------------------------------------------------------------

    @property
    def index_root(self) -> Path:
        """Directory of the mapping index."""
        return Path(self.pipeline.index.path or "")

    @contextmanager
    def index_update(self) -> Iterator[Popen[str] | None]:
        """One update of the index for one fault alone; None while another one has it."""
        if not self._index_lock.acquire(blocking=False):
            yield None
            return
        try:
            with indexing.updating(self._path) as update:
                yield update
        finally:
            self._index_lock.release()

    def note_update(self, update: Popen[str]) -> None:
        """An update of the index may fail while all kinds of things are broken, but never without words for people."""
        code, said = indexing.outcome(update)
        self.journal.note(f"index update ended with {code}")
        if "Traceback" in said:
            self.copiers.unexpected.append(f"an index update ended with {code}\n{said}")

    # -- schema registries --------------------------------------------------------------------------------------

    @contextmanager
    def registry(self, rng: random.Random) -> Iterator[SandboxRegistry | None]:
        """A schema registry for one fault alone; None while another one has it, or where there is none."""
        registries = self._stages.registries()
        if not registries or not self._registry_lock.acquire(blocking=False):
            yield None
            return
        try:
            self._trouble["registry"] = float("inf")
            yield rng.choice(registries)
        finally:
            self._trouble["registry"] = time.monotonic()
            self._registry_lock.release()

    # -- clusters -----------------------------------------------------------------------------------------------

    @contextmanager
    def broker(self, role: Role) -> Iterator[Broker | None]:
        """A broker for one fault alone; None while another one has it."""
        lock = self._broker_locks[role]
        if not lock.acquire(blocking=False):
            yield None
            return
        try:
            self._trouble[role] = float("inf")
            yield self._brokers[role]
        finally:
            self._trouble[role] = time.monotonic()
            lock.release()

    def lost_markers(self) -> bool:
        """Whether a broker took a partition for deleted, and left a transaction in it open for ever."""
        logs = [broker.log_file.read_text(errors="replace") for broker in self._brokers.values()]
        return any("deleted already and hence can be skipped" in log for log in logs)

    @property
    def _brokers(self) -> dict[Role, Broker]:
        return {"source": self.sandbox.source, "target": self.sandbox.target}

    def hold_commit_topic(self, seconds: float, end: Ending) -> None:
        """A transaction of somebody else in the commit topic."""
        topic = self.pipeline.coordination.commit.topic
        records = [(_OF_OTHERS.key_bytes(), _OF_OTHERS.value_bytes())]
        self._hold(self.sandbox.target_servers, topic, 0, records, seconds, end)

    def hold_source(self, topic: str, partition: int, seconds: float, end: Ending, rng: random.Random) -> None:
        """A transaction in a source partition."""
        with self._topics_lock:
            if topic not in self.topics():
                return
            self._open[topic] += 1
        records = self.writer.records(rng.randint(1, 20), rng)
        self._hold(self.sandbox.source_servers, topic, partition, records, seconds, end)
        if end != "leave":  # else it ends by its timeout
            self._open[topic] -= 1

    def corrupt(self, topic: str) -> None:
        """A record in a control topic that nobody can read."""
        settings = {"bootstrap.servers": self.sandbox.target_servers, "message.timeout.ms": HELD_MS, "log_level": 0}
        with suppress(KafkaException, TimeoutError):
            send(Producer(settings), topic, [Record(UNREADABLE, b"{")], 0)

    def _hold(self, servers: str, topic: str, partition: int, records: list[Any], seconds: float, end: Ending) -> None:
        """Holds a transaction open; a broker that goes down meanwhile ends it in its own way."""
        settings = {"bootstrap.servers": servers, "transactional.id": unique("held"), "log_level": 0}
        client = Producer({**settings, "transaction.timeout.ms": HELD_MS, "message.timeout.ms": HELD_MS})
        with suppress(KafkaException, TimeoutError):
            client.init_transactions(SECONDS)
            client.begin_transaction()
            send(client, topic, [Record(*record) for record in records], partition)
            self.rest(seconds)
            if end == "commit":
                client.commit_transaction(SECONDS)
            elif end == "abort":
                client.abort_transaction(SECONDS)
