"""A real MirrorMaker 2 copies, is stopped in the middle, and a pipeline goes on behind what it has copied."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.lab import Lab
from benchmarks.mirror_maker import MODES, MirrorMaker, Mode
from k2k_assets.cli.tool import run
from k2k_assets.core.deadline import wait_until
from k2k_assets.kafka.clusters import both_clusters
from k2k_assets.overrides.mirror_maker_offsets import read_mirror_maker
from k2k_assets.pipeline import load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, topics, unique
from k2k_assets_tests.support.copies.copying import assert_same_content, commit_records, copy
from k2k_assets_tests.support.copies.pipelines import write_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SECONDS = 400.0


@pytest.mark.parametrize(
    ("mode", "how"), [(MODES[0], "enabled"), (MODES[1], "disabled")], ids=["exactly once", "at least once"]
)
def test_a_copy_of_mirror_maker_is_gone_on_with(
    clusters: KafkaSandbox, tmp_path: Path, capsys: Any, mode: Mode, how: str
) -> None:
    topic = create_topic(clusters.source_servers, unique("mirrored"), 2)
    for partition in range(2):
        produce(clusters.source_servers, topic, [b"%d-%d" % (partition, n) for n in range(500)], partition)
    alias = unique("src").replace("-", "")
    mode = Mode(mode.title, alias, mode.settings)
    lab = cast("Lab", SimpleNamespace(folder=tmp_path, sandbox=clusters))
    there = f"{alias}.{topic}"
    with MirrorMaker(lab, "mm2", mode, [topic], {"target.offset.flush.interval.ms": 1000}) as mirror:

        def copied() -> bool:
            mirror.ensure_running()
            return there in topics(clusters.target_servers) and len(read_all(clusters.target_servers, there)) >= 1000

        wait_until(copied, SECONDS, "MirrorMaker 2 to copy")
    features = {"exactlyOnce": how, "offsetMapping": "enabled", "headerReplication": "enabled"}
    path = write_pipeline(
        tmp_path, clusters.source_servers, clusters.target_servers, [topic],
        sink={"prefix": f"{alias}."}, features=features,
    )  # fmt: skip
    pipeline = load_pipeline([path])
    with both_clusters(pipeline) as (source, target):
        table = read_mirror_maker(pipeline, source, target, alias)
    assert {tp.partition: at.offset for tp, at in table.positions.items() if tp.topic == topic} == {0: 500, 1: 500}

    for partition in range(2):
        produce(clusters.source_servers, topic, [b"%d-%d" % (partition, n) for n in range(500, 700)], partition)
    capsys.readouterr()
    assert run(["adopt", "-f", str(path), "--mirror-maker", alias, "--apply"]) == 0
    said = capsys.readouterr().out
    assert f"{topic}-0: 500, target end" in said
    assert "2 positions adopted" in said
    assert {r.position for r in commit_records(pipeline, clusters.target_servers)} == {500}

    outcome = copy(pipeline)
    assert outcome.stopped == {}
    assert outcome.topics[topic].records == 400
    assert assert_same_content(clusters.source_servers, topic, clusters.target_servers, there) == 1400


def test_what_is_not_there_is_named(clusters: KafkaSandbox, tmp_path: Path, capsys: Any) -> None:
    topic = create_topic(clusters.source_servers, unique("mirrored"))
    path = write_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic])
    alias = unique("nobody")
    assert run(["adopt", "-f", str(path), "--mirror-maker", alias]) == 3
    assert f"has no topic mm2-offsets.{alias}.internal" in capsys.readouterr().err
    own = create_topic(clusters.target_servers, unique("connect"))
    produce(clusters.target_servers, own, [(b'["x",{"cluster":"A","partition":0,"topic":"t"}]', b'{"offset":4}')])
    assert run(["adopt", "-f", str(path), "--mirror-maker", alias, "--offsets-topic", own]) == 3
    assert f"has no position of a source named {alias}; it has positions of A" in capsys.readouterr().err
