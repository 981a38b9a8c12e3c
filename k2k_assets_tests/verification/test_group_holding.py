"""What a target group holds, against what was committed for it."""

from __future__ import annotations

import pytest

from k2k_assets.control.group_versions import Version
from k2k_assets.kafka.groups import Committed
from k2k_assets.verification.group_holding import Holding, holding


@pytest.mark.parametrize(
    ("held", "found"),
    [
        (None, Holding.NOTHING),
        (Committed(7, "k2k_3.100"), Holding.OURS),
        (Committed(7, "by hand"), Holding.OURS),
        (Committed(8, "k2k_3.100"), Holding.OTHER),
        (Committed(8, "k2k_3.99"), Holding.OTHER),
        (Committed(6, "k2k_2.900"), Holding.OTHER),
        (Committed(8, "k2k_3.101"), Holding.MOVED),
        (Committed(8, "k2k_4.1"), Holding.MOVED),
        (Committed(8, ""), Holding.MOVED),
        (Committed(6, "by hand"), Holding.MOVED),
    ],
)
def test_what_is_held(held: Committed | None, found: Holding) -> None:
    assert holding(7, held, Version(3, 100), "k2k_") is found
