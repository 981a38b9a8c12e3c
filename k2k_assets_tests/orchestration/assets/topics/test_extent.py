"""How long a materialization copies, as the file says."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from k2k_assets.orchestration.assets.topics.topic_copy import CopyConfig, ExtentChoice, copy_once
from k2k_assets.replication.extent import UntilCaughtUp, Window
from k2k_assets_tests.support.copies.pipelines import make_pipeline


def test_a_click_copies_as_long_as_the_file_says(tmp_path: Path) -> None:
    sync = {"window": "3 minutes", "idle": "7 seconds"}
    pipeline = make_pipeline(tmp_path, "s:9092", "t:9092", ".*", sync=sync)
    seen: list[object] = []
    spark: Any = SimpleNamespace(replicate=lambda extent, **_: seen.append(extent))
    context: Any = SimpleNamespace(log=logging.getLogger("k2k.test"), run_id="r")
    for config in (
        CopyConfig(extent=ExtentChoice.window),
        CopyConfig(extent=ExtentChoice.window, window_seconds=9, idle_seconds=2),
        CopyConfig(extent=ExtentChoice.caught_up),
    ):
        copy_once(context, pipeline, spark, config, None)
    assert seen == [
        Window(duration=timedelta(minutes=3), idle=timedelta(seconds=7)),
        Window(duration=timedelta(seconds=9), idle=timedelta(seconds=2)),
        UntilCaughtUp(),
    ]
