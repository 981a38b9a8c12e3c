"""A member that a mask would not see, because its object has another one of its name, on real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.cli.tool import run as k2k_tool
from k2k_assets.core.stops.reasons.records import TransformFailed
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import MODES
from k2k_assets_tests.support.copies.transformed import transforming

pytestmark = pytest.mark.integration

HIDDEN = b'{"customer":{"email":"secret@example.com"},"customer":{"id":7}}'


@MODES
def test_it_stops_its_topic_and_is_copied_nowhere(clusters: KafkaSandbox, tmp_path: Path, mode: str) -> None:
    topic = create_topic(clusters.source_servers, unique("orders"))
    rules = [{"pattern": topic, "mask": [{"value": "customer.email", "with": "***"}]}]
    path, pipeline = transforming(clusters, tmp_path, [topic], mode, rules)
    plain = b'{"customer": {"email": "a@example.com"}}'
    written = produce(clusters.source_servers, topic, [plain, HIDDEN, plain])
    reason = copy(pipeline).stopped[topic][0]
    assert isinstance(reason, TransformFailed)
    assert reason.offset == written[1][1]
    assert "secret" not in reason.found()
    assert k2k_tool(["set", "-f", str(path), "-o", f"{topic}:0:{written[2][1]}"]) == 0
    assert copy(pipeline).stopped == {}
    assert [r.value for r in read_all(clusters.target_servers, topic)] == [b'{"customer":{"email":"***"}}'] * 2
