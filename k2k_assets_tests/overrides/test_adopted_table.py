"""Tables of positions as people and tools write them, and MirrorMaker 2's own records."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from k2k_assets.core.errors import Refused
from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.overrides.adopted_table import AdoptedPosition, parse_table
from k2k_assets.overrides.mirror_maker_records import OffsetSync, parse_offset_sync, parse_source_offset

ORDERS = {TopicPartition("orders", 0): AdoptedPosition(12, 9), TopicPartition("orders", 1): AdoptedPosition(0)}
DESCRIBED = """pipeline: p
source: source-id
target: target-id
group: g
committed:
- {topic: orders, partition: 0, committed: 12, last: 12, target offset: 9}
- {topic: orders, partition: 1, committed: 0, last: 4}
"""


@pytest.mark.parametrize(
    "text",
    [
        "topic,partition,offset,target offset\norders,0,12,9\norders,1,0,\n",
        "\ufefftopic,partition,offset,target offset\r\norders,0,12,9\r\norders,1,0,\r\n",
        "topic, partition, source offset, target_offset\norders, 0, 12, 9\norders, 1, 0, \n\n",
        "- {topic: orders, partition: 0, offset: 12, target offset: 9}\n- {topic: orders, partition: 1, offset: 0}\n",
        "positions:\n- {topic: orders, partition: 0, offset: 12, targetOffset: 9}\n"
        "- {topic: orders, partition: 1, offset: 0}\n",
        '[{"topic": "orders", "partition": 0, "offset": 12, "target offset": 9}, '
        '{"topic": "orders", "partition": 1, "offset": 0}]',
        DESCRIBED,
    ],
)
def test_all_forms_say_the_same(text: str) -> None:
    table = parse_table(text, "t.csv")
    assert table.positions == ORDERS
    assert table.cluster == ("source-id" if text == DESCRIBED else None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds 0 documents"),
        ("topic,partition\norders,0\n", "row 1: 'offset' is missing"),
        ("topic,partition,offset\n", "has no rows"),
        ("topic,partition,offset\norders,0,-1\n", "'offset' is no whole number from 0"),
        ("topic,partition,offset\norders,0,1.5\n", "'offset' is no whole number from 0"),
        ("topic,partition,offset\norders,0,latest\n", "'latest' says where to begin, not how far a copy has come"),
        ("- {topic: 007, partition: 0, offset: 1}", "'topic' is no text but 7 to YAML or JSON: put the name in quotes"),
        ("- {topic: 2026-11-26, partition: 0, offset: 1}", "put the name in quotes"),
        ("topic,partition,offset\norders,x,1\n", "'partition' is no whole number from 0"),
        ("topic,partition,offset\norders,0,1\norders,0,2\n", "row 2: orders-0 comes twice"),
        ("topic,partition,offset,target offset\norders,0,1,x\n", "'target offset' is no whole number from 0"),
        ("topic,partition,offset\norders,0," + "1" * 200_000, "cannot be read as CSV: field larger than"),
        ("orders: [", "neither CSV nor YAML nor JSON"),
        ("just words", "has no rows"),
        (DESCRIBED + "---\n" + DESCRIBED, "holds 2 documents; wanted: those of one pipeline"),
        ("- {topic: orders, partition: 0, offset: true}", "'offset' is no whole number from 0"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_row(text: str, said: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_table(text, "t.csv")
    assert said in str(caught.value)


def test_lines_may_end_as_on_old_machines() -> None:
    table = parse_table("topic,partition,offset\rorders,0,1\r", "t.csv")
    assert [str(tp) for tp in table.positions] == ["orders-0"]


@given(st.text(max_size=200))
@example(",\r0")
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert parse_table(text, "t").positions
    except Refused:
        return


@given(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=100),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
)
def test_offset_syncs(topic: str, partition: int, upstream: int, downstream: int) -> None:
    """MirrorMaker 2's offset syncs are read as it writes them."""
    name = topic.encode()
    key = struct.pack(f">h{len(name)}si", len(name), name, partition)
    value = struct.pack(">qq", upstream, downstream)
    assert parse_offset_sync(key, value) == OffsetSync(TopicPartition(topic, partition), upstream, downstream)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"x" * 16),
        (b"\0\x01a\0\0\0\0", None),
        (b"\0\x01a\0\0\0\0", b"x" * 8),
        (b"\0\x09a", b"x" * 16),
        (b"", b""),
    ],
)
def test_what_is_no_offset_sync(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ValueError, match="no offset sync"):
        parse_offset_sync(key, value)


def test_positions_of_connect() -> None:
    where = {"cluster": "A", "partition": 3, "topic": "orders"}
    key = json.dumps(["MirrorSourceConnector", where]).encode()
    found = parse_source_offset(key, b'{"offset":41}')
    assert found is not None
    assert (found.cluster, found.source, found.offset, found.connector) == (
        "A", TopicPartition("orders", 3), 41, "MirrorSourceConnector",
    )  # fmt: skip
    reset = parse_source_offset(key, None)
    assert reset is not None
    assert reset.offset is None
    others = [
        '["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]',
        '["file",{"name":"x"}]',
    ]
    assert [parse_source_offset(other.encode(), b'{"offset":0}') for other in others] == [None, None]
    with pytest.raises(ValueError, match="orders-3 has no offset"):
        parse_source_offset(key, b"{}")
