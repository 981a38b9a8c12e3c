"""Registries whose nodes know at once whatever they will ever know; import the fixture into a folder's conftest.py."""

from __future__ import annotations

import pytest

from k2k_assets.registry import schema_ids


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that does not know a schema is asked again as often, without a pause."""
    monkeypatch.setattr(schema_ids, "_PAUSES_UNTIL_KNOWN", (0.0,) * len(schema_ids._PAUSES_UNTIL_KNOWN))
