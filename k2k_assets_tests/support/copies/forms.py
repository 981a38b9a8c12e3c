"""The form of transport of tests whose pipelines name none: `K2K_FORM`, or what the product chooses.

A test that is marked `librdkafka` copies by records in either form. Any other test fails if a slot of this process goes
on by records where batches were asked for: it would say nothing about that form. Uncommitted records are always read
by records, and a pipeline that reads them has asked for that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from k2k_assets.replication.slot.slot import Slot
from k2k_assets.transport.errors import NotByTransport
from k2k_assets.transport.interface import Transport

_VARIABLE = "K2K_FORM"
_ASKED_FOR = "isolation.level is read_uncommitted"


def form_section() -> dict[str, Any]:
    """The section of a pipeline file that names the form; none if the product is to choose."""
    form = os.environ.get(_VARIABLE)
    return {"transport": {"form": form}} if form else {}


@contextmanager
def copying_in_form(by_librdkafka: bool) -> Iterator[None]:
    """Writes pipelines in the form that is asked for, and makes sure that slots of this process keep to it.

    Args:
        by_librdkafka: Whether they copy by records whatever is asked for.
    """
    if by_librdkafka:
        with patch.dict(os.environ, {_VARIABLE: "records"}):
            yield
        return
    if os.environ.get(_VARIABLE) == "records":
        yield
        return
    reasons: list[str] = []
    go_on = Slot._records_transport

    def noted(self: Slot, why: NotByTransport) -> Transport:
        reasons.extend(reason for reason in why.reasons if reason != _ASKED_FOR)
        return go_on(self, why)

    with patch.object(Slot, "_records_transport", noted):
        yield
    assert not reasons, f"slots went on by records: {reasons}"
