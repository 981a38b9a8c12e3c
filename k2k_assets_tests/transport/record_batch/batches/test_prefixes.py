"""First bytes of keys and values are replaced where they lie: as if the records had been decoded and made anew."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.pipeline.sections.schema_mapping import Facet
from k2k_assets.transport.chunk import Chunk
from k2k_assets.transport.record_batch.batches.batch import batch_at
from k2k_assets.transport.record_batch.batches.columns import BatchRecords, arrived
from k2k_assets.transport.record_batch.batches.packing_settings import PackingSettings
from k2k_assets.transport.record_batch.batches.rewriting import outgoing_of
from k2k_assets_tests.support.brokers.batches import PACK, PackedRecord, pack_batch
from k2k_assets_tests.support.brokers.outgoing import received
from k2k_assets_tests.support.suite.properties import examples

T = TopicPartition("t", 0)
SIZE = 5
payloads = st.one_of(
    st.none(),
    st.binary(max_size=8),
    st.builds(lambda n, rest: bytes([0, 0, 0, 0, n]) + rest, st.integers(0, 3), st.binary(max_size=200)),
)


def doubled(start: bytes | None) -> bytes | None:
    """Another id for most; some ids, and all that has none, stay."""
    if start is None or len(start) < SIZE or start[0]:
        return start
    return start[:4] + bytes([start[4] * 2 % 256])


def replaced(payload: bytes | None) -> bytes | None:
    if payload is None or len(payload) < SIZE:
        return payload
    return (doubled(payload[:SIZE]) or b"") + payload[SIZE:]


def records_of(*batches: bytes, position: int = 0) -> BatchRecords:
    read = [batch_at(memoryview(each), 0, len(each)) for each in batches]
    return BatchRecords(T, [found for each in read if each.end > position and (found := arrived(each, position))])


@examples(150)
@given(st.data())
def test_model_all_else_is_as_it_came(data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from([*PACK]))
    position = data.draw(st.integers(0, 3))
    pairs = data.draw(st.lists(st.tuples(payloads, payloads), min_size=position + 1, max_size=30))
    first = data.draw(st.integers(1, len(pairs)))
    made = [
        PackedRecord(n, key, value, [(b"h", b"x")] if n % 3 else (), later=n)
        for n, (key, value) in enumerate(pairs)
    ]  # fmt: skip
    batches = [pack_batch(0, made[:first], attributes=codec)]
    if made[first:]:
        rest = [record._replace(delta=n) for n, record in enumerate(made[first:])]
        batches.append(pack_batch(first, rest, attributes=codec))
    facets: list[Facet] = data.draw(st.sampled_from([["key"], ["value"], ["key", "value"]]))

    changed = records_of(*batches, position=position).with_prefixes(SIZE, dict.fromkeys(facets, doubled))

    assert changed is not None
    before, after = records_of(*batches, position=position).columns(), changed.columns()
    map_key: Callable[[bytes | None], bytes | None] = replaced if "key" in facets else lambda payload: payload
    map_value: Callable[[bytes | None], bytes | None] = replaced if "value" in facets else lambda payload: payload
    assert after.keys() == [map_key(key) for key in list(before.keys())]
    assert after.values() == [map_value(value) for value in before.values()]
    assert (after.offsets(), after.timestamps(), after.raw_headers()) == (
        before.offsets(), before.timestamps(), before.raw_headers(),
    )  # fmt: skip
    # Brokers check the sum that the header has.
    for each in changed.arrived:
        frame = bytes(each.batch.header) + bytes(each.batch.payload)
        assert batch_at(memoryview(frame), 0, len(frame))[:-2] == each.batch[:-2]
    chunk = Chunk(T, changed, "t", 0)
    sent = received(outgoing_of(chunk, PackingSettings(10**6)))
    assert [(record.key, record.value) for record in sent] == list(zip(after.keys(), after.values(), strict=True))
