"""A source that loses records in an unclean election: its log is cut off while the broker is down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka import KafkaException

from k2k_assets.core.deadline import wait_until
from k2k_assets.sandbox.broker import Broker
from k2k_assets_tests.support.brokers.kafka import PATIENCE, SECONDS, admin, produce, unique


@contextmanager
def lossy_broker(directory: Path) -> Iterator[Broker]:
    """A broker whose logs may be cut off, while the block lasts.

    Args:
        directory: A new one.
    """
    broker = Broker("source", directory / "broker")
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


class LossySource:
    """The logs of a broker, which can be cut off."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._sizes: dict[str, int] = {}

    @property
    def servers(self) -> str:
        return self.broker.servers

    def write(self, topic: str, name: str, count: int, transactional: bool = False) -> None:
        records = [b"%s %d" % (name.encode(), i) for i in range(count)]
        produce(self.servers, topic, records, 0, transactional_id=unique("tx") if transactional else None)

    def mark(self, topic: str) -> None:
        """Remembers how long the log is now."""
        self._sizes[topic] = self._log(topic).stat().st_size

    def lose(self) -> None:
        """What the marked topics got since is gone; the next start begins another leader epoch."""
        self.broker.stop()
        (self.broker.directory / "data" / ".kafka_cleanshutdown").unlink(missing_ok=True)
        for topic, size in self._sizes.items():
            log = self._log(topic)
            for derived in log.parent.glob("0*"):
                if derived != log:
                    derived.unlink()
            with log.open("r+b") as file:
                file.truncate(size)
        self.broker.start()
        for topic in self._sizes:
            self.await_later_epoch(topic)
        self._await_groups()

    def start_again(self, topics: Iterable[str]) -> None:
        """Nothing is lost, but their logs begin another leader epoch."""
        before = {topic: self.epoch(topic) for topic in topics}
        self.broker.restart()
        for topic, epoch in before.items():
            self._await_epoch_after(topic, epoch)
        self._await_groups()

    def _await_groups(self) -> None:
        """Waits until the broker, which has just started, has loaded its groups."""

        def loaded() -> bool:
            with suppress(KafkaException, TimeoutError):
                return not admin(self.servers).list_consumer_groups(request_timeout=SECONDS).result(SECONDS).errors
            return False

        wait_until(loaded, PATIENCE, f"the groups of {self.servers}")

    def await_later_epoch(self, topic: str) -> None:
        """Waits until the log has begun a second leader epoch, which replaces the first one if that has no record."""
        self._await_epoch_after(topic, 0)

    def _await_epoch_after(self, topic: str, before: int) -> None:
        wait_until(lambda: self.epoch(topic) > before, PATIENCE, f"a new epoch of {topic}")

    def epoch(self, topic: str) -> int:
        """The newest leader epoch of the log."""
        return int(self._log(topic).with_name("leader-epoch-checkpoint").read_text().split()[-2])

    def _log(self, topic: str) -> Path:
        return self.broker.directory / "data" / f"{topic}-0" / ("0" * 20 + ".log")
