"""G2: nothing lost, order kept, and duplicates only of what lies after the last commit record."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.copying import commit_records, copy, dying_first
from k2k_assets_tests.support.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.pipelines import make_pipeline
from k2k_assets_tests.support.storms import in_storms

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def topic_with_gaps(clusters: KafkaSandbox) -> str:
    """Committed and aborted transactions in turn, written once for all tests that only read it."""
    topic = create_topic(clusters.source_servers, unique("killed"))
    for batch in range(4):
        produce(clusters.source_servers, topic, [b"%d-%d" % (batch, i) for i in range(150)], 0, unique("tx"))
        produce(clusters.source_servers, topic, [b"aborted"] * 7, 0, abort=True)
    return topic


@pytest.mark.parametrize(
    ("step", "occurrence"),
    [
        ("write", 4),
        ("settle", 2),
        ("before_commit", 4),
        ("commit", 4),
        *in_storms(("open", 1), ("begin", 2), ("write", 2)),
    ],
)
def test_killed_at_any_step_and_run_again(
    clusters: KafkaSandbox, tmp_path: Path, topic_with_gaps: str, step: str, occurrence: int
) -> None:
    topic, prefix = topic_with_gaps, f"{unique('copy')}."
    pipeline = make_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        sink={"prefix": prefix},
        coordination={"commit": {"batchSize": 100}},
    )

    outcome = copy(pipeline, cores=1, runner=dying_first(step, occurrence))

    assert outcome.topics[topic].lag == 0
    offsets = {record.value: record.offset for record in read_all(clusters.source_servers, topic)}
    copied = [offsets[record.value] for record in read_all(clusters.target_servers, prefix + topic)]
    first_times = list(dict.fromkeys(copied))
    assert first_times == sorted(offsets.values())
    # One kill, so at most one jump back: to the last commit of the instance that was killed.
    jumps = [i for i in range(1, len(copied)) if copied[i] <= copied[i - 1]]
    assert len(jumps) <= 1
    for i in jumps:
        log = commit_records(pipeline, clusters.target_servers)
        committed = max(r.position for r in log if r.generation < outcome.generation)
        assert copied[i] == min(offset for offset in offsets.values() if offset >= committed)
        assert copied[i:] == sorted(copied[i:])


def test_nothing_twice_where_nothing_was_killed(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("twice"), 2)
    pipeline = make_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic])
    records = []
    for run in range(3):
        produce(clusters.source_servers, topic, [b"%d-%d" % (run, i) for i in range(250)], 1)
        records.append(copy(pipeline).topics[topic].records)
    assert records == [250, 250, 250]
    assert len(read_all(clusters.target_servers, topic)) == 750
