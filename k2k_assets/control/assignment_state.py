"""The fold of the assignment topic for the slots of one group: instances, claims, heartbeats, stops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from k2k_assets.control.assignment_records import (
    Claim,
    InstanceRecord,
    parse_instance,
    parse_settings,
    parse_start,
    parse_stop,
    parse_time,
)
from k2k_assets.control.pause_records import Pause, parse_pause
from k2k_assets.core import json_codec


@dataclass(slots=True, kw_only=True)
class Assignments:
    """State of one group by the records of the assignment topic.

    Claims count whether their transaction was committed or not: an aborted claim only costs a needless fencing, and a
    release is written only after the last commit of its slot.

    Attributes:
        instances: Newest record of each instance, by generation.
        names: Instance name of each generation, also of generations that the instance has replaced by newer ones.
        begun: Slots that have ever claimed a partition, by generation and number.
        stops: Generations that were asked to stop.
        again: Stopped generations whose instance goes on with a new generation.
        claims: Claims that are neither released nor fenced, by claim id.
        signs: Offset of the last claim or heartbeat of each slot, by generation and slot.
        heard: Time of each generation's last record, by its own clock, in milliseconds since the epoch.
        claimed: The slot of the highest generation that has ever claimed a partition, by topic id and partition. It
            also shows claims that came and went between two reads.
        starts: Start positions of topics some of whose partitions have no commit record yet, by source topic id.
        settings: The settings behind the fingerprints in mapping records, as documents for `CopySettings.parse`.
        paused: Paused source topics.
        runs: Offset of the last heartbeat of each Dagster run that has no slots, by run id.
        runs_heard: Time of that heartbeat, by the clock of the run, in milliseconds since the epoch.
    """

    instances: dict[int, InstanceRecord] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    begun: set[tuple[int, int]] = field(default_factory=set)
    stops: set[int] = field(default_factory=set)
    again: set[int] = field(default_factory=set)
    claims: dict[str, Claim] = field(default_factory=dict)
    signs: dict[tuple[int, int], int] = field(default_factory=dict)
    heard: dict[int, int] = field(default_factory=dict)
    claimed: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    starts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    paused: dict[str, Pause] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    runs_heard: dict[str, int] = field(default_factory=dict)

    def newest(self) -> int:
        """The highest generation; -1 if there is none."""
        return max(self.instances, default=-1)

    def by_partition(self) -> dict[tuple[str, int], list[Claim]]:
        """Groups the claims by topic id and partition, in one pass, for callers that ask for many partitions."""
        found: dict[tuple[str, int], list[Claim]] = {}
        for claim in self.claims.values():
            found.setdefault(claim.what, []).append(claim)
        return found

    def describe(self, generation: int) -> str:
        """Text for people that names the instance of a generation."""
        instance = self.instances.get(generation)
        return f"{instance} (generation {generation})" if instance else f"the instance of generation {generation}"

    def apply(self, group: str, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Takes in one record; ignores records of other groups and other kinds.

        Raises:
            ValueError: The record cannot be read.
        """
        where = f"assignment record at offset {offset}"
        head = json_codec.decode(key, f"{where}, key")
        if head.get("group") != group:
            return
        try:
            self._apply(head, offset, value, where)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{where}, key: field missing or of a wrong type: {error}") from None

    def _apply(self, head: dict[str, Any], offset: int, value: bytes | None, where: str) -> None:
        match head.get("kind"):
            case "instance":
                self.instances = {g: i for g, i in self.instances.items() if i.instance != head["instance"]}
                if value is not None:
                    self.instances[offset] = parse_instance(head["instance"], value, where)
                    self.names[offset] = head["instance"]
                    self.heard[offset] = self.instances[offset].time
            case "claim":
                self.claims.pop(head["claim"], None)
                if value is not None:
                    claim = Claim.parse(head, value, offset, where)
                    self.claims[claim.claim] = claim
                    if claim.generation >= self.claimed.get(claim.what, (-1, -1))[0]:
                        self.claimed[claim.what] = claim.owner
                    self.signs[claim.owner] = offset
                    self.begun.add(claim.owner)
            case "beat" if value is not None:
                generation = int(head["generation"])
                self.signs[generation, int(head["slot"])] = offset
                self.heard[generation] = max(parse_time(value, where), self.heard.get(generation, 0))
            case "beat":
                self.signs.pop((int(head["generation"]), int(head["slot"])), None)
            case "run-beat":
                run = str(head["run"])
                self.runs.pop(run, None)
                self.runs_heard.pop(run, None)
                if value is not None:
                    self.runs[run], self.runs_heard[run] = offset, parse_time(value, where)
            case "start":
                self.starts.pop(str(head["topicId"]), None)
                if value is not None:
                    self.starts[str(head["topicId"])] = parse_start(value, where)
            case "settings" if value is not None:
                self.settings[str(head["fingerprint"])] = parse_settings(value, where)
            case "pause":
                self.paused.pop(str(head["topic"]), None)
                if value is not None:
                    self.paused[str(head["topic"])] = parse_pause(value, where)
            case "stop":
                self._apply_stop(int(head["generation"]), value, where)

    def _apply_stop(self, generation: int, value: bytes | None, where: str) -> None:
        self.stops.discard(generation)
        self.again.discard(generation)
        if value is not None:
            self.stops.add(generation)
            if parse_stop(value, where):
                self.again.add(generation)
