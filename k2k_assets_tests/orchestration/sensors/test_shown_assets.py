"""The definitions are reloaded where they lack what was discovered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from k2k_assets.discovery import DiscoveredTopic, Discovery
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.sensors import shown_assets
from k2k_assets.orchestration.sensors.asked_reloads import AskedReloads


def test_definitions_that_lack_a_topic_are_reloaded_until_they_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first reload may be lost: its code server may be replaced by another reload."""
    names, asked = AssetNames("p"), list[str]()
    monkeypatch.setattr(shown_assets, "reload_soon", asked.append)
    context: Any = SimpleNamespace(code_location_origin=SimpleNamespace(location_name="here"))
    found = Discovery("p", 0, "source", "target", {"late": DiscoveredTopic(1, "late")})
    reloads, shown = AskedReloads(), frozenset[dg.AssetKey]()
    for now, so_far in ((0.0, 1), (10.0, 1), (59.0, 1), (61.0, 2), (100.0, 2), (181.0, 3)):
        reloads = shown_assets.show_anew(context, names, found, shown, reloads, now)
        assert asked == ["here"] * so_far, now
    reloads = shown_assets.show_anew(context, names, found, frozenset([names.topic_key("late")]), reloads, 5000.0)
    assert (reloads, len(asked)) == (AskedReloads(), 3)
