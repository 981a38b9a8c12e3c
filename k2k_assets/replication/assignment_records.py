"""The records of the assignment topic: instances, stops and claims. All lie in its partition 0, so offsets order them.

An instance record's own offset is its *generation*. Of two instances of one group the higher generation is right.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from k2k_assets import json_codec

VERSION = 1
PARTITION = 0


@dataclass(frozen=True, slots=True)
class Instance:
    """One attempt to run a pipeline.

    Attributes:
        instance: A name that nobody else has.
        pipeline: Name of the pipeline.
        slots: How many slots it uses, so how many transactional ids have to be fenced after it.
        commit_topic_id: Of the commit topic that it used: another one means that progress was lost.
        host: Where it runs, for people.
        pid: Likewise.
        time: Milliseconds since the epoch, UTC.
    """

    instance: str
    pipeline: str
    slots: int
    commit_topic_id: str
    host: str
    pid: int
    time: int


@dataclass(slots=True)
class Assignments:
    """What the assignment topic says of one group.

    Attributes:
        instances: Those not yet fenced, by generation.
        stops: Generations that were asked to stop.
    """

    instances: dict[int, Instance] = field(default_factory=dict)
    stops: set[int] = field(default_factory=set)

    def newest(self) -> int:
        """The highest generation; -1 if there is none."""
        return max(self.instances, default=-1)

    def apply(self, group: str, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Takes in one record; those of other groups and of kinds that say nothing here are passed over.

        Raises:
            ValueError: It cannot be read.
        """
        where = f"assignment record at offset {offset}"
        head = json_codec.decode(key, f"{where}, key")
        if head.get("group") != group:
            return
        try:
            if head.get("kind") == "instance":
                self._apply_instance(offset, head["instance"], value, where)
            elif head.get("kind") == "stop" and value is not None:
                self.stops.add(int(head["generation"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"{where}, key: field missing or of a wrong type: {error}") from None

    def _apply_instance(self, offset: int, name: str, value: bytes | None, where: str) -> None:
        if value is None:
            self.instances = {g: i for g, i in self.instances.items() if i.instance != name}
        else:
            self.instances[offset] = _instance(name, json_codec.decode(value, where), where)


def instance_key(group: str, instance: str) -> bytes:
    """The key of an instance record."""
    return json_codec.encode({"kind": "instance", "group": group, "instance": instance})


def instance_value(instance: Instance) -> bytes:
    """The value of an instance record."""
    return json_codec.encode(
        {
            "version": VERSION,
            "pipeline": instance.pipeline,
            "slots": instance.slots,
            "commitTopicId": instance.commit_topic_id,
            "host": instance.host,
            "pid": instance.pid,
            "time": instance.time,
        }
    )


def stop_key(group: str, generation: int) -> bytes:
    """The key of a stop record."""
    return json_codec.encode({"kind": "stop", "group": group, "generation": generation})


def stop_value(time: int) -> bytes:
    """The value of a stop record."""
    return json_codec.encode({"version": VERSION, "time": time})


def claim_key(group: str, topic_id: str, partition: int, transactional_id: str, claim: str) -> bytes:
    """The key of a claim. The claim id is drawn anew each time, so compaction never removes one still to be fenced."""
    return json_codec.encode(
        {
            "kind": "claim",
            "group": group,
            "topicId": topic_id,
            "partition": partition,
            "transactionalId": transactional_id,
            "claim": claim,
        }
    )


def claim_value(generation: int, slot: int, topic: str, time: int) -> bytes:
    """The value of a claim; its release is a tombstone."""
    return json_codec.encode({"version": VERSION, "generation": generation, "slot": slot, "topic": topic, "time": time})


def _instance(name: str, body: dict[str, Any], where: str) -> Instance:
    json_codec.check_version(body, VERSION, where)
    try:
        return Instance(
            instance=name,
            pipeline=body["pipeline"],
            slots=int(body["slots"]),
            commit_topic_id=body["commitTopicId"],
            host=body.get("host", "?"),
            pid=int(body.get("pid", 0)),
            time=int(body.get("time", 0)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{where}: field missing or of a wrong type: {error}") from None
