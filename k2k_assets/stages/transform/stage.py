"""The transform stage: leaves records out, changes them, or stops at one, by the rules of the pipeline file.

It comes behind the marker, which knows echoes by the headers of the source, and before all else: so rules see headers,
schema ids and topic names of the source, whatever of them is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from k2k_assets.stages.headers import readable_headers
from k2k_assets.stages.transform.batch import Batch, DeadLetter
from k2k_assets.stages.transform.rules import Transforms
from k2k_assets.transport.chunk import Chunk, Columns
from k2k_assets.transport.headers import Headers
from k2k_assets.transport.rewritten import RewrittenColumns


class TransformStage:
    """The stage.

    Args:
        transforms: The rules.
        pipeline: Name of the pipeline, for dead letters.
    """

    def __init__(self, transforms: Transforms, pipeline: str) -> None:
        self._transforms = transforms
        self._pipeline = pipeline

    def call_while_working(self, call: Callable[[], None]) -> None:
        """As of `LongStage`."""
        self._transforms.while_working = call

    def __call__(self, chunk: Chunk) -> Chunk:
        """Applies the rules to a chunk."""
        rules = self._transforms.of(chunk.source.topic)
        if not rules or not chunk.count:
            return chunk
        headers = readable_headers(chunk) if any(rule.needs_headers for rule in rules) else None
        if not chunk.count:
            return chunk
        columns = chunk.columns()
        batch = batch_of(chunk, columns, headers)
        self._transforms.apply(batch)
        if batch.has_new_payloads or batch.has_new_headers:
            changed = list(batch.headers) if batch.has_new_headers else None
            chunk.records = RewrittenColumns(columns, batch.keys, batch.values, changed)
        chunk.aside += self._dead_letters(batch, chunk, columns)
        if batch.stopped:
            chunk.cut(*batch.stopped)
        _drop(chunk, batch.left_out[: chunk.count])
        return chunk

    def _dead_letters(self, batch: Batch, chunk: Chunk, columns: Columns) -> tuple[Chunk, ...]:
        """The records that failed, as they came, with the reason in headers."""
        topics = dict.fromkeys(letter.topic for letter in batch.dead.values())
        return tuple(self._of_topic(topic, batch, chunk, columns) for topic in topics)

    def _of_topic(self, topic: str, batch: Batch, chunk: Chunk, columns: Columns) -> Chunk:
        letters = [
            letter if (letter := batch.dead.get(i)) and letter.topic == topic else None for i in range(len(columns))
        ]
        own = columns.select([letter is not None for letter in letters])
        offsets = own.offsets()
        found = [letter for letter in letters if letter is not None]
        headers = [
            [*(has or ()), *self._reason(chunk, offset, timestamp, letter)]
            for has, offset, timestamp, letter in zip(own.headers(), offsets, own.timestamps(), found, strict=True)
        ]
        records = RewrittenColumns(own, own.keys(), own.values(), headers)
        return Chunk(chunk.source, records, target_topic=topic)

    def _reason(self, chunk: Chunk, offset: int, timestamp: int, letter: DeadLetter) -> Headers:
        return [
            ("__k2k_error_pipeline", self._pipeline.encode()),
            ("__k2k_error_topic", chunk.source.topic.encode()),
            ("__k2k_error_partition", b"%d" % chunk.source.partition),
            ("__k2k_error_offset", b"%d" % offset),
            ("__k2k_error_timestamp", b"%d" % timestamp),
            ("__k2k_error_rule", letter.failure.rule.encode()),
            ("__k2k_error_reason", letter.failure.words.encode()),
        ]


def batch_of(chunk: Chunk, columns: Columns, headers: Sequence[Headers | None] | None) -> Batch:
    """The records of a chunk for the rules.

    Args:
        chunk: Names the source.
        columns: Its records.
        headers: Their headers; None if no rule looks at them.
    """
    return Batch(
        source=chunk.source,
        offsets=columns.offsets(),
        timestamps=columns.timestamps() if headers is not None else (),
        keys=list(columns.keys()),
        values=list(columns.values()),
        headers=list(headers) if headers is not None else [None] * len(columns),
    )


def _drop(chunk: Chunk, left_out: Sequence[str | None]) -> None:
    """Leaves out the records that have a rule, rule by rule."""
    for rule in dict.fromkeys(left_out):
        if rule is not None:
            chunk.drop([each != rule for each in left_out], rule)
            left_out = [each for each in left_out if each != rule]
