"""The instruments of an offset mapper, fed by its polls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from k2k_assets.control.group_versions import Version
from k2k_assets.core.errors import K2KError
from k2k_assets.groups.decide import CommitDecision
from k2k_assets.groups.report import PollResult
from k2k_assets.mapping.algebra.partition_map import SourcePartition
from k2k_assets.pipeline import Pipeline
from k2k_assets.telemetry.group_states import counted

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
Labels = dict[str, str | int]


class MapperInstruments:
    """Counters, which begin with the process, and gauges, which tell of the last poll.

    Args:
        meter: Makes the instruments.
        pipeline: The pipeline; `metrics.prefix.offsetMappingApp` begins the names.
        index_ends: Covered ends of the index, called when metrics are read, in the reader's thread.
    """

    def __init__(
        self, meter: Meter, pipeline: Pipeline, index_ends: Callable[[], Mapping[SourcePartition, int]]
    ) -> None:
        prefix = pipeline.metrics.prefix.offset_mapping_app
        self._labels: Labels = {"pipeline": pipeline.name}
        self._index_ends = index_ends
        self._last: PollResult | None = None

        def observed(name: str, unit: str, words: str, observe: Callable[[PollResult], Iterable[Observation]]) -> None:
            def callback(_: CallbackOptions) -> Iterable[Observation]:
                return observe(self._last) if self._last else ()

            meter.create_observable_gauge(f"{prefix}{name}", [callback], unit, words)

        self._commits = meter.create_counter(f"{prefix}commits", "{commit}", "Groups committed, once for each poll")
        self._failures = meter.create_counter(
            f"{prefix}poll.failures", "{poll}", "Polls that failed and were tried again"
        )
        self._duration = meter.create_histogram(
            f"{prefix}poll.duration", "s", "Duration of polls", explicit_bucket_boundaries_advisory=_SECONDS
        )
        meter.create_observable_counter(
            f"{prefix}mapping_records", [self._observe_records], "{record}", "Mapping records read"
        )
        observed("groups", "{group}", "Groups by state", self._observe_groups)
        observed("positions", "{position}", "Positions of groups by state", self._observe_positions)
        observed("group.lag", "{offset}", "Offsets left to read", self._observe_lags)
        observed("groups.held_back", "{group}", "1 while groups are held back", self._observe_held_back)
        observed("mapped.end", "{offset}", "Source offset up to which mappings are read", self._observe_mapped)
        observed("index.end", "{offset}", "Source offset up to which the index covers", self._observe_index)
        observed("generation", "{generation}", "Number of the mapper's generation", self._observe_generation)
        for count in (self._commits, self._failures):
            count.add(0, self._labels)

    def polled(self, result: PollResult) -> None:
        """Takes in a poll; in the mapper's thread."""
        self._last = result
        self._commits.add(len(result.committed), self._labels)
        self._duration.record(result.seconds, self._labels)

    def troubled(self, _: K2KError) -> None:
        """Takes in an error that the mapper waits out; in the mapper's thread."""
        self._failures.add(1, self._labels)

    def _observe_records(self, _: CallbackOptions) -> Iterator[Observation]:
        if self._last:
            yield Observation(self._last.records_read, self._labels)

    def _observe_groups(self, result: PollResult) -> Iterator[Observation]:
        for state, count in counted(result).items():
            yield Observation(count, {**self._labels, "state": state})

    def _observe_positions(self, result: PollResult) -> Iterator[Observation]:
        for decision in CommitDecision:
            yield Observation(result.decision_counts[decision], {**self._labels, "state": decision.value})

    def _observe_lags(self, result: PollResult) -> Iterator[Observation]:
        for group in result.decisions:
            for cluster, lag in zip(("source", "target"), result.left(group), strict=True):
                yield Observation(lag, {**self._labels, "group": group, "cluster": cluster})

    def _observe_held_back(self, result: PollResult) -> Iterator[Observation]:
        yield Observation(int(bool(result.held_back)), self._labels)

    def _observe_mapped(self, result: PollResult) -> Iterator[Observation]:
        for source, end in result.mapped_ends.items():
            yield Observation(end, self._labels_of(source))

    def _observe_index(self, result: PollResult) -> Iterator[Observation]:
        # A topic that was created anew has several source partitions in the index, and one that is mapped.
        for source, end in self._index_ends().items():
            if source in result.mapped_ends:
                yield Observation(end, self._labels_of(source))

    def _observe_generation(self, result: PollResult) -> Iterator[Observation]:
        version: Version = result.version
        yield Observation(version.generation, self._labels)

    def _labels_of(self, source: SourcePartition) -> Labels:
        return {**self._labels, "topic": source.topic, "partition": source.partition}
