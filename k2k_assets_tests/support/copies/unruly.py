"""Functions of users that hang or end their process at some records, and what has to become of the others."""

from __future__ import annotations

from pathlib import Path

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.replication.plan import slot_of
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import ReadRecord, create_topic, unique

CODE = '''
import ctypes
import os
import re
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc


MOMENTS = Path(__file__).with_suffix(".moments")


def upper(records: pa.RecordBatch) -> pa.RecordBatch:
    """Hangs and ends its process as values say; makes the others upper case."""
    for value in records.column("value").to_pylist():
        if value == b"sleep":
            time.sleep(3600)
        if value.startswith(b"wait "):
            time.sleep(float(value.removeprefix(b"wait ")))
        if value == b"search":
            re.match("(a+)+b", "a" * 64)  # holds Python's lock for years
        if value == b"exit":
            os._exit(3)
        if value == b"segfault":
            ctypes.string_at(0)
        if value == b"no text":
            return with_headers_that_are_no_text(records)
        if value.startswith(b"often "):
            now_and_then()
        if value.startswith(b"now and then "):
            once(Path(value.removeprefix(b"now and then ").decode()))
    values = pc.utf8_upper(records.column("value").cast(pa.string())).cast(pa.binary())
    return records.set_column(4, records.schema.field(4), values)


def once(marker: Path) -> None:
    """Ends its process the first time."""
    if not marker.exists():
        marker.touch()
        os._exit(9)


def with_headers_that_are_no_text(records: pa.RecordBatch) -> pa.RecordBatch:
    """As of somebody who makes keys of bytes, and does not look whether they are UTF-8."""
    wanted = records.schema.field("headers").type
    keys, values = pa.array([b"\\xff"] * len(records)).view(pa.string()), records.column("value")
    structs = pa.StructArray.from_arrays([keys, values], fields=list(wanted.value_type))
    headers = pa.ListArray.from_arrays(pa.array(range(len(records) + 1), pa.int32()), structs).cast(wanted)
    return records.set_column(6, records.schema.field("headers"), headers)


def now_and_then() -> None:
    """Ends its process each second time."""
    with MOMENTS.open("a+b") as moments:
        moments.write(b".")
        if moments.tell() % 2:
            moments.close()
            os._exit(9)
'''
IMPORTS = {
    "sleep": "time.sleep(3600)",
    "search": 're.match("(a+)+b", "a" * 64)',
    "exit": "os._exit(3)",
    "segfault": "ctypes.string_at(0)",
    "raise": "import no_such_module_of_a_user",
}
"""What a module may do when it is imported."""
CORRECTED = CODE.replace('    for value in records.column("value").to_pylist():', "    for value in ():")


def function_beside(directory: Path, at_import: str = "") -> str:
    """The function, in a module of its own beside the pipeline file; it may do one of `IMPORTS`."""
    module = unique("unruly").replace("-", "_")
    (directory / f"{module}.py").write_text(CODE + (f"\n\n{IMPORTS[at_import]}\n" if at_import else ""))
    return f"{module}:upper"


def correct(directory: Path, function: str) -> None:
    """Corrects the function: from now on it makes all values upper case."""
    (directory / f"{function.partition(':')[0]}.py").write_text(CORRECTED)


def through_upper(record: ReadRecord) -> ReadRecord:
    """What the function has to make of a record."""
    return record._replace(value=(record.value or b"").upper())


def topic_of_slot(clusters: KafkaSandbox, slot: int, slots: int = 2) -> str:
    """A new source topic whose one partition goes to that slot."""
    name = unique("orders")
    while slot_of(TopicPartition(name, 0), slots) != slot:
        name = unique("orders")
    return create_topic(clusters.source_servers, name, 1)
