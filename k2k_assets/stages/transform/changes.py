"""Masks and drops as functions of a batch and an index. They leave alone what is not there, and null."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from k2k_assets.pipeline.sections.predicates import steps_of
from k2k_assets.pipeline.sections.schema_mapping import Facet
from k2k_assets.pipeline.sections.transform import Drop, Mask, RecordPart
from k2k_assets.stages.transform.batch import Batch
from k2k_assets.stages.transform.documents import Document
from k2k_assets.stages.transform.fields import Steps, removed, replaced

Change = Callable[[Batch, int], None]
"""Changes the record at an index.

Raises:
    RecordFault: It cannot be changed.
"""

_InJson = Callable[[Any], str]
_InBytes = Callable[[bytes], bytes]


def compile_mask(mask: Mask) -> Change:
    """Makes the function of a mask."""
    in_json, in_bytes = _ways(mask)
    if mask.header is not None:
        return partial(_mask_header, mask.header, in_bytes)
    facet, steps = facet_and_steps(mask)
    if not steps:
        return partial(_mask_whole, facet, in_bytes)
    return partial(_mask_field, facet, steps, in_json)


def compile_drop(drop: Drop) -> Change:
    """Makes the function of a drop."""
    if drop.header is not None:
        return partial(_drop_header, drop.header)
    facet, steps = facet_and_steps(drop)
    return partial(_drop_field, facet, steps) if steps else partial(_drop_whole, facet)


def facet_and_steps(place: RecordPart) -> tuple[Facet, Steps]:
    """Where a place lies that is no header."""
    if place.key is not None:
        return "key", steps_of(place.key)
    return "value", steps_of(place.value or ())


def _ways(mask: Mask) -> tuple[_InJson, _InBytes]:
    """How a mask replaces the content of a field, and bytes."""
    text = mask.with_
    if text is None:
        return _hash_of_content, _hash_of_bytes
    written = text.encode()
    return lambda content: text, lambda payload: written


def _hash_of_content(content: Any) -> str:
    """Of a text its UTF-8, of all else its JSON."""
    data = content.encode() if isinstance(content, str) else msgspec.json.encode(content)
    return hashlib.sha256(data).hexdigest()


def _hash_of_bytes(payload: bytes) -> bytes:
    return hashlib.sha256(payload).hexdigest().encode()


def _mask_header(name: str, mask: _InBytes, batch: Batch, index: int) -> None:
    own = batch.headers[index]
    if own and any(each == name and value is not None for each, value in own):
        masked = [(n, mask(value) if n == name and value is not None else value) for n, value in own]
        batch.set_headers(index, masked)


def _mask_whole(facet: Facet, mask: _InBytes, batch: Batch, index: int) -> None:
    payload = batch.written_payload(index, facet)
    if payload is not None:
        batch.set_payload(index, facet, mask(payload))


def _mask_field(facet: Facet, steps: Steps, mask: _InJson, batch: Batch, index: int) -> None:
    document = batch.document(index, facet)
    if document is not None:
        _note(document, replaced(document.content, steps, mask), steps[-1])


def _drop_header(name: str, batch: Batch, index: int) -> None:
    own = batch.headers[index]
    if own and any(each == name for each, _ in own):
        batch.set_headers(index, [header for header in own if header[0] != name])


def _drop_whole(facet: Facet, batch: Batch, index: int) -> None:
    if batch.payload(index, facet) is not None:
        batch.set_payload(index, facet, None)


def _drop_field(facet: Facet, steps: Steps, batch: Batch, index: int) -> None:
    document = batch.document(index, facet)
    if document is not None:
        _note(document, removed(document.content, steps), steps[-1])


def _note(document: Document, is_changed: bool, name: str) -> None:
    """Notes a change; where there was nothing to change, the bytes must not have it either."""
    if is_changed:
        document.is_changed = True
    elif not document.is_changed:
        document.ensure_said_once(name)
