"""Requests and answers by `kio`, which is generated from Kafka's own schemas."""

from __future__ import annotations

import io
from importlib import import_module
from typing import Any

from kio.serial import entity_writer


def schema_of(api: str, version: int, kind: str) -> Any:
    """The classes of a version of an API: `kind` is `request` or `response`."""
    return import_module(f"kio.schema.{api}.v{version}.{kind}")


def packed(entity: Any) -> bytes:
    """A request or an answer as it is on the wire."""
    written = io.BytesIO()
    entity_writer(type(entity))(written, entity)
    return written.getvalue()
