"""A topic on both clusters that is copied by hand, right or wrong, and the verdicts of the checks."""

from __future__ import annotations

import time
from dataclasses import dataclass

from pyspark.sql import SparkSession

from k2k_assets.mapping.index import update_index
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.verification.mapping_checks import Evidence, run_check
from k2k_assets.verification.verdict import Verdict
from k2k_assets_tests.support.brokers.kafka import Record, produce
from k2k_assets_tests.support.copies.hand_copy import HandCopy

# Not older than the brokers' retention, which would delete them in the middle of a test.
NOW = int(time.time() * 1000) - 60_000
RECORDS = [Record(b"k%d" % i, b"v%d" % i, [("h", b"%d" % i)], NOW + i) for i in range(10)]


@dataclass
class World:
    """A topic on both clusters, and a hand that copies it rightly or wrongly."""

    clusters: KafkaSandbox
    topic: str
    hand: HandCopy
    spark: SparkSession

    def source(self, records: list[Record] | None = None) -> list[int]:
        return self._write(self.clusters.source_servers, records)

    def target(self, records: list[Record] | None = None) -> list[int]:
        return self._write(self.clusters.target_servers, records)

    def _write(self, servers: str, records: list[Record] | None) -> list[int]:
        written = produce(servers, self.topic, RECORDS if records is None else records, partition=0)
        return [offset for _, offset in written]

    def mapped(self, *runs: tuple[int, int, int], end: int = 10) -> None:
        self.hand.mapping(self.topic, (0, end), runs)
        self.hand.commit(self.topic, end, records=end)

    def verdict(self, check: str) -> Verdict:
        return self.verdicts(check)[check]

    def verdicts(self, *checks: str) -> dict[str, Verdict]:
        hand = self.hand
        index = update_index(self.spark, hand.pipeline, hand.source, hand.target)
        evidence = Evidence(hand.pipeline, self.spark, index, hand.source, hand.target)
        return {check: run_check(check, evidence) for check in checks}
