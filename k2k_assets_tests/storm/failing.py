"""A stage whose function fails for some records, which go to a topic for dead letters; and what has to be there."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from k2k_assets_tests.storm.stages import Stages
from k2k_assets_tests.support.brokers.kafka import ReadRecord, Record, unique

_HEADER = ("storm-fails", b"yes")
_FAILING = 0.03
CODE = '''
"""Fails for records with a header; and now and then it ends its process, at whatever record."""

import os
import random

ENDS = 0.003


def check(records):
    if random.random() < ENDS:
        os._exit(9)
    for headers in records.column("headers").to_pylist():
        if any(header["key"] == "storm-fails" for header in headers or ()):
            raise ValueError("as the storm wants")
    return records
'''


class Failing(Stages):
    """Records with one header fail in a function, and go to a topic for dead letters as they were."""

    def __init__(self) -> None:
        self._module, self.topic = unique("storm_function").replace("-", "_"), unique("storm-dead")

    def write_options(self) -> Mapping[str, Any]:
        function = {"python": f"{self._module}:check", "onError": "deadLetter", "deadLetters": self.topic}
        return {"transform": [{"pattern": ".*", **function}]}

    def write_beside(self, folder: Path) -> None:
        (folder / f"{self._module}.py").write_text(CODE)

    def dress(self, record: Record, rng: random.Random) -> Record:
        return record._replace(headers=[*(record.headers or []), _HEADER]) if rng.random() < _FAILING else record

    def through(self, record: ReadRecord) -> ReadRecord | None:
        return None if _HEADER in record.headers else record

    def dead_letter(self, record: ReadRecord) -> bool:
        return _HEADER in record.headers

    def dead_letter_topics(self) -> list[str]:
        return [self.topic]


def problems_of_dead_letters(
    source: Iterable[ReadRecord], letters: Sequence[ReadRecord], is_dead: Callable[[ReadRecord], bool], once: bool
) -> list[str]:
    """What is wrong about a topic for dead letters.

    Args:
        source: The committed records of all source topics.
        letters: The records of the topic, by offset.
        is_dead: Whether a record of the source has to be in it.
        once: Whether exactly once, and in order; else at least once.
    """
    wanted = {_key(r.topic, r.partition, r.offset): r for r in source if is_dead(r)}
    found = Counter(map(_origin, letters))
    words = [f"{key}: its dead letter is lost" for key in wanted if key not in found]
    words += [f"{key}: a dead letter of a record that does not fail" for key in found if key not in wanted]
    for letter in letters:
        if (record := wanted.get(_origin(letter))) is not None:
            words += _differences(record, letter)
    if once:
        words += [f"{key}: {count} dead letters" for key, count in found.items() if count > 1]
        last: dict[tuple[bytes, bytes], int] = {}
        for topic, partition, offset in map(_origin, letters):
            if int(offset) < last.get((topic, partition), -1):
                words.append(f"{(topic, partition, offset)}: its dead letter is behind that of a later record")
            last[topic, partition] = int(offset)
    return words


def _differences(record: ReadRecord, letter: ReadRecord) -> list[str]:
    own, reason = letter.headers[: len(record.headers)], dict(letter.headers[len(record.headers) :])
    as_it_was = (record.key, record.value, b"%d" % record.timestamp, list(record.headers))
    words = []
    if (letter.key, letter.value, reason.get("__k2k_error_timestamp"), list(own)) != as_it_was:
        words.append(f"{_origin(letter)}: its dead letter is altered")
    if b"as the storm wants" not in (reason.get("__k2k_error_reason") or b"") or "__k2k_error_rule" not in reason:
        words.append(f"{_origin(letter)}: its dead letter has no reason")
    return words


def _origin(letter: ReadRecord) -> tuple[bytes, bytes, bytes]:
    told = dict(letter.headers)
    topic, partition, offset = (told.get(f"__k2k_error_{name}") or b"" for name in ("topic", "partition", "offset"))
    return topic, partition, offset


def _key(topic: str, partition: int, offset: int) -> tuple[bytes, bytes, bytes]:
    return topic.encode(), b"%d" % partition, b"%d" % offset
