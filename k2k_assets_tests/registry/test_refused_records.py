"""A rule may refuse keys and values without a schema id: the topic stops there, in both forms of transport."""

from __future__ import annotations

import re
import shlex

import pytest

from k2k_assets.cli.tool import run as k2k_tool
from k2k_assets.core.stops.reason import render
from k2k_assets.core.stops.reasons.schemas import SchemaIdMissing
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline import load_pipeline
from k2k_assets.registry.framing import PREFIX
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.registry.conftest import Registries
from k2k_assets_tests.support.brokers.kafka import ReadRecord, Record, create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, copy
from k2k_assets_tests.support.copies.pipelines import MODES, Make
from k2k_assets_tests.support.copies.schema_records import KINDS

pytestmark = [pytest.mark.integration, pytest.mark.slow]

TEXT = b"text"


def one_record(part: str, odd: bytes | None, framed: bytes) -> Record:
    """A record of which one part is not framed."""
    return Record(odd, framed) if part == "key" else Record(framed, odd)


def payloads(record: ReadRecord) -> tuple[bytes | None, ...]:
    """What mapping leaves as it is."""
    return tuple(each and each[PREFIX:] for each in (record.key, record.value))


def rules(part: str, refused: str) -> dict[str, object]:
    return {"topics": [{"pattern": ".*", part: "enabled", refused: "refused"}]}


@MODES
@pytest.mark.parametrize("form", ["records", "batches"])
@pytest.mark.parametrize(
    ("part", "refused", "odd", "other"),
    [
        ("value", "unframed", TEXT, None),
        ("key", "unframed", b"", None),
        ("value", "nulls", None, TEXT),
        ("key", "nulls", None, TEXT),
    ],
)
def test_what_has_no_schema_id_stops_its_topic_there_where_a_rule_refuses_it(
    clusters: KafkaSandbox, registries: Registries, make: Make, form: str, mode: str, part: str, refused: str,
    odd: bytes | None, other: bytes | None,
) -> None:  # fmt: skip
    """What the rule does not refuse is copied as it is, and so is all when the rule says `untouched`."""
    bad, good = (create_topic(clusters.source_servers, unique(name)) for name in ("bad", "good"))
    of_bad, of_good = (KINDS[0].writer(registries[0].url, topic) for topic in (bad, good))
    records = [Record(of_bad(n), of_bad(n)) for n in range(10)]
    records[5:7] = [one_record(part, other, of_bad(5)), one_record(part, odd, of_bad(6))]
    produce(clusters.source_servers, bad, records, partition=0)
    produce(clusters.source_servers, good, [Record(of_good(n), of_good(n)) for n in range(3)])
    pipeline = make([bad, good], mode, schemaMapping=rules(part, refused), transport={"form": form})

    outcome = copy(pipeline)

    assert outcome.stopped == {bad: {0: SchemaIdMissing(TopicPartition(bad, 0), 6, part, refused)}}
    copied = read_all(clusters.target_servers, f"copy.{bad}")
    assert len(copied) == 6
    assert (copied[5].key if part == "key" else copied[5].value) == other
    assert len(read_all(clusters.target_servers, f"copy.{good}")) == 3

    (path,) = pipeline.files
    path.write_text(path.read_text().replace(f"{refused}: refused", f"{refused}: untouched"))
    pipeline = load_pipeline([path])
    assert copy(pipeline).stopped == {}
    copied = read_all(clusters.target_servers, f"copy.{bad}")
    assert len(copied) == 10
    assert (copied[6].key if part == "key" else copied[6].value) == odd
    read = KINDS[0].reader(registries[1].url, f"copy.{bad}")
    mapped = [record.key if part == "key" else record.value for record in (*copied[:5], *copied[7:])]
    assert [read(each or b"") for each in mapped] == [*range(5), *range(7, 10)]
    assert_exact_mappings(pipeline, clusters.source_servers, clusters.target_servers, bad, payloads)


@MODES
def test_the_command_that_is_named_goes_on_behind_the_record(
    clusters: KafkaSandbox, registries: Registries, make: Make, mode: str
) -> None:
    topic = create_topic(clusters.source_servers, unique("orders"))
    write = KINDS[0].writer(registries[0].url, topic)
    produce(clusters.source_servers, topic, [write(0), TEXT, write(2)])
    pipeline = make([topic], mode, schemaMapping=rules("value", "unframed"))
    said = render(copy(pipeline).stopped[topic][0])
    assert said.startswith(f"[schema-id-missing] the value of the record at {topic}-0 offset 1 does not begin with")
    command = re.search(r"k2k-tool (set .*)", said)
    assert command is not None

    assert k2k_tool(shlex.split(command[1].replace("FILE", str(pipeline.files[0])))) == 0

    assert copy(pipeline).stopped == {}
    read = KINDS[0].reader(registries[1].url, f"copy.{topic}")
    assert [read(r.value or b"") for r in read_all(clusters.target_servers, f"copy.{topic}")] == [0, 2]
