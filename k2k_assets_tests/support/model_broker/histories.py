"""What random histories against the model have in common: the faults that strike, and how steps may fail."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import strategies as st

from k2k_assets.core.errors import K2KError
from k2k_assets.transport.errors import Restart, Undeliverable
from k2k_assets.transport.record_batch.writing import batch_producer
from k2k_assets_tests.support.brokers.kafka_frames import Api
from k2k_assets_tests.support.model_broker.server import Fault, Trouble

SECONDS = 3.0
"""Of a step: it has six attempts in that time."""
FAILURES = (Restart, Undeliverable, K2KError)
# Leaders and replicas; coordinators; sequences and epochs; states; what nobody knows.
_CODES = [3, 5, 6, 7, 19, 20, 14, 15, 16, 45, 46, 47, 48, 49, 51, 53, 59, 74, 87, 90, 100, 120, -1]


def send_early() -> pytest.MonkeyPatch:
    """Makes producers send some batches at once, and wait for room for few, until it is undone."""
    patched = pytest.MonkeyPatch()
    for name, bytes_ in (("_SENT_AT_ONCE", 200), ("WINDOW", 900), ("_WINDOW_WITH_ROOM", 600)):
        patched.setattr(batch_producer, name, bytes_)
    return patched


def faults(apis: Sequence[Api], latest: int) -> st.SearchStrategy[Fault]:
    """Troubles with one of the next four requests of an API.

    Args:
        apis: The APIs; those that are there more than once are hit more often.
        latest: How many requests later a late one may come.
    """
    return st.builds(
        Fault,
        st.sampled_from(apis),
        st.sampled_from(Trouble),
        occurrence=st.integers(1, 4),
        code=st.sampled_from(_CODES),
        later=st.integers(1, latest),
    )
