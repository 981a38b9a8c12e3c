"""The form of transport of tests whose pipelines name none: `K2K_FORM`, or what the product chooses.

A test that is marked `librdkafka` copies by records in either form. Any other test fails in the form `batches` if a
slot of this process goes on by records: it would say nothing about that form.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from k2k_assets.replication.slot.slot import Slot
from k2k_assets.transport.errors import NotByTransport
from k2k_assets.transport.interface import Transport

_VARIABLE = "K2K_FORM"


def form_section(features: Mapping[str, Any]) -> dict[str, Any]:
    """The section of a pipeline file that names the form; none if the product is to choose.

    Args:
        features: The features of the pipeline. At least once these tests have not been run by batches yet.
    """
    form = os.environ.get(_VARIABLE)
    if not form or (form == "batches" and features.get("exactlyOnce") != "enabled"):
        return {}
    return {"transport": {"form": form}}


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
    if os.environ.get(_VARIABLE) != "batches":
        yield
        return
    reasons: list[str] = []
    go_on = Slot._records_transport

    def noted(self: Slot, why: NotByTransport) -> Transport:
        reasons.append(str(why))
        return go_on(self, why)

    with patch.object(Slot, "_records_transport", noted):
        yield
    assert not reasons, f"slots went on by records: {reasons}"
