"""Orders that rules of `transform` leave out or change, and what has to become of each, told without the product.

The functions that pipeline files name are here as text: a test writes them beside its file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from k2k_assets.pipeline import Pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import Headers, ReadRecord, Record, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import mapped_offsets
from k2k_assets_tests.support.copies.pipelines import mapping_pipeline

RULES: list[dict[str, Any]] = [
    {
        "pattern": ".*",
        "filter": {"any": [{"value": "customer.country", "in": ["DE", "AT"]}, {"header": "keep", "equals": "yes"}]},
        "mask": [{"value": "customer.email", "with": "***"}, {"header": "user", "hash": "sha256"}],
        "drop": [{"value": "notes"}, {"header": "debug"}],
    },
    {"pattern": ".*", "filter": {"not": {"value": "test", "equals": True}}},
]
FILTERS = ("transform[0].filter", "transform[1].filter")
"""The rules by which `RULES` leave records out."""

FUNCTION = """
import pyarrow as pa
import pyarrow.compute as pc


def large(records: pa.RecordBatch) -> pa.RecordBatch:
    values = records.column("value").cast(pa.string())
    if pc.any(pc.equal(values, "broken")).as_py():
        raise KeyError("country")
    kept = records.filter(pc.greater(pc.utf8_length(values), 8))
    upper = pc.utf8_upper(kept.column("value").cast(pa.string())).cast(pa.binary())
    return kept.set_column(kept.schema.get_field_index("value"), kept.schema.field("value"), upper)
"""
"""Leaves out values of up to 8 bytes, and makes the others upper case; fails for `broken`."""

Through = Callable[[ReadRecord], ReadRecord | None]


def order(number: int) -> Record:
    """One of many different orders, most of which have a rule to meet."""
    value: dict[str, Any] = {"n": number, "price": 1.10}
    value["customer"] = {
        "country": ("DE", "FR", "AT", "US")[number % 4],
        "email": f"{number}@example.org",
        "id": number,
    }
    if number % 5 == 0:
        value["notes"] = "none of theirs"
    if number % 7 == 0:
        value["test"] = True
    headers: Headers = [("user", b"u%d" % number), ("debug", b"1"), ("other", None)]
    if number % 6 == 1:
        headers.append(("keep", b"yes"))
    # As it was written: with blanks, which a value that is not changed keeps.
    return Record(b"k%d" % number, json.dumps(value).encode(), headers)


def write_orders(servers: str, topic: str, first: int, count: int, partitions: int = 1) -> None:
    """Writes orders, in turn to the partitions; some in transactions, of which some are aborted."""
    for partition in range(partitions):
        mine = [order(n) for n in range(first, first + count) if n % partitions == partition]
        half = len(mine) // 2
        produce(servers, topic, mine[:half], partition)
        produce(servers, topic, [order(0)] * 3, partition, abort=True)
        produce(servers, topic, mine[half:], partition, unique("tx"))


def through_rules(record: ReadRecord) -> ReadRecord | None:
    """What `RULES` have to make of an order."""
    value = json.loads(record.value or b"{}")
    if value["customer"]["country"] not in ("DE", "AT") and ("keep", b"yes") not in record.headers:
        return None
    if value.get("test"):
        return None
    value["customer"]["email"] = "***"
    value.pop("notes", None)
    text = json.dumps(value, separators=(",", ":")).encode()
    users: Headers = [
        (name, hashlib.sha256(of or b"").hexdigest().encode() if name == "user" else of)
        for name, of in record.headers
        if name != "debug"
    ]
    return record._replace(value=text, headers=users)


def through_function(record: ReadRecord) -> ReadRecord | None:
    """What `FUNCTION` has to make of a record."""
    value = record.value or b""
    return record._replace(value=value.upper()) if len(value) > 8 else None


FAILING = [1, 2, 9, 20, 37]
"""Numbers of records that are no JSON."""


def mixed(number: int) -> Record:
    """An order, or one of `FAILING`."""
    record = order(number)
    return record._replace(value=b"no JSON %d" % number) if number in FAILING else record


def to_dead_letters(dead: str) -> list[dict[str, Any]]:
    """Rules that send what is no JSON to a topic for dead letters."""
    return [{
        "pattern": ".*", "filter": {"not": {"value": "test", "exists": True}},
        "mask": [{"value": "customer.email", "with": "***"}], "onError": "deadLetter", "deadLetters": dead,
    }]  # fmt: skip


def through_dead_letters(record: ReadRecord) -> ReadRecord | None:
    """What `to_dead_letters` has to make of a record; None: it is left out, or a dead letter."""
    value = record.value or b""
    if value.startswith(b"no JSON") or b'"test"' in value:
        return None
    email = value.split(b'"email": "')[1].split(b'"')[0]
    return record._replace(value=value.replace(email, b"***").replace(b": ", b":").replace(b", ", b","))


def transforming(
    clusters: KafkaSandbox, directory: Path, topics: str | Sequence[str], mode: str = "enabled",
    rules: list[dict[str, Any]] | None = None, **rest: Any,
) -> tuple[Path, Pipeline]:  # fmt: skip
    """A pipeline with rules.

    Args:
        clusters: Both clusters.
        directory: For the file.
        topics: A pattern, or names.
        mode: `features.exactlyOnce`.
        rules: `transform`; `RULES` by default.
        rest: More features in `features`, and further arguments of `write_pipeline`.
    """
    return mapping_pipeline(
        directory, clusters.source_servers, clusters.target_servers, topics, mode,
        features={"headerReplication": "enabled", **rest.pop("features", {})},
        transform=RULES if rules is None else rules, **rest,
    )  # fmt: skip


def assert_transformed(
    clusters: KafkaSandbox, pipeline: Pipeline, topic: str, through: Through = through_rules, once: bool = True
) -> int:
    """The target holds what the rules make of the source, in its order; each offset is mapped to it, or dropped.

    Args:
        clusters: Both clusters.
        pipeline: Has copied the topic.
        topic: The topic.
        through: What has to become of a record.
        once: Whether copies may not be there a second time.

    Returns:
        How many records were left out.
    """
    read = read_all(clusters.source_servers, topic)
    target_topic = pipeline.routing.target_topic(topic)
    on_target = read_all(clusters.target_servers, target_topic)
    there = {(r.partition, r.offset): r.content for r in on_target}
    wanted = {(r.partition, r.offset): changed.content for r in read if (changed := through(r)) is not None}
    mapped = mapped_offsets(pipeline, clusters.target_servers, topic)
    offsets = {(r.partition, r.offset) for r in read}
    assert mapped.copies.keys() == wanted.keys()
    assert {at: there[to] for at, to in mapped.copies.items()} == wanted
    assert mapped.dropped.keys() & offsets == offsets - wanted.keys()
    if once:
        assert len(on_target) == len(wanted)
    for partition in {r.partition for r in read}:
        # In order, also where some are there a second time.
        copies = list(dict.fromkeys(str(r.content) for r in on_target if r.partition == partition))
        assert copies == [str(content) for (p, _), content in wanted.items() if p == partition]
    return len(offsets - wanted.keys())
