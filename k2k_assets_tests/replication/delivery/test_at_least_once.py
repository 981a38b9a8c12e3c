"""G2: nothing is lost, order is kept, and only records after the last commit record are duplicated."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import assert_exact_mappings, copy, dying_first
from k2k_assets_tests.support.copies.pipelines import make_pipeline, of_small_transactions
from k2k_assets_tests.support.copies.troubled_copy import Written, assert_at_least_once, write_with_gaps
from k2k_assets_tests.support.suite.storms import in_storms

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def written(clusters: KafkaSandbox) -> Written:
    """600 committed records with gaps, written once for all tests that only read them."""
    return write_with_gaps(clusters.source_servers, batches=4, size=145)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "occurrence"),
    [
        ("write", 4),
        ("settle", 2),
        ("before_commit", 4),
        ("during_commit", 4),
        ("commit", 4),
        *in_storms(
            ("open", 1),
            ("begin", 1),
            ("write_control", 1),  # of the claim
            ("during_commit", 1),
            ("commit", 1),
            ("begin", 2),
            ("write_control", 2),  # of the start position
            ("commit", 2),
            ("write", 2),
            ("write_control", 5),  # of a position, before its mapping, or behind it
            ("write_control", 6),
        ),
    ],
)
def test_killed_at_any_step_and_run_again(
    clusters: KafkaSandbox, tmp_path: Path, written: Written, step: str, occurrence: int
) -> None:
    topic, prefix = written.topic, f"{unique('copy')}."
    pipeline = make_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        sink={"prefix": prefix},
        features={"exactlyOnce": "disabled", "offsetMapping": "enabled", "headerReplication": "enabled"},
        **of_small_transactions(100),
    )

    outcome = copy(pipeline, cores=1, runner=dying_first(step, occurrence))

    assert outcome.topics[topic].lag == 0
    assert_at_least_once(pipeline, written, clusters.source_servers, clusters.target_servers)
    assert_exact_mappings(pipeline, clusters.source_servers, clusters.target_servers, topic)


def test_nothing_twice_where_nothing_was_killed(clusters: KafkaSandbox, tmp_path: Path) -> None:
    topic = create_topic(clusters.source_servers, unique("twice"), 2)
    pipeline = make_pipeline(tmp_path, clusters.source_servers, clusters.target_servers, [topic])
    records = []
    for run in range(3):
        produce(clusters.source_servers, topic, [b"%d-%d" % (run, i) for i in range(250)], 1)
        records.append(copy(pipeline).topics[topic].records)
    assert records == [250, 250, 250]
    assert len(read_all(clusters.target_servers, topic)) == 750
