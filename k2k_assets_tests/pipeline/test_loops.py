"""Pipelines in opposite directions are refused if they would copy each other's copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from k2k_assets.cli.main import run
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.pipeline.clients.client_properties import CLIENTS
from k2k_assets.pipeline.loops import loops
from k2k_assets_tests.support.copies.pipelines import make_pipeline, write_pipeline

ON = {"bidirectionalReplication": "enabled"}
CLUSTER: dict[str, Any] = {"features": ON, "bidirectional": {"mode": "cluster"}}


def told(directory: Path, forth: dict[str, Any], back: dict[str, Any]) -> list[str]:
    def made(source: str, target: str, given: dict[str, Any]) -> Pipeline:
        rest = dict(given)
        return make_pipeline(directory, source, target, rest.pop("topics", ["orders"]), **rest)

    return list(loops([made("a:1,A2:1", "b:1", forth), made("b:1", "a2:1", back)]))


@pytest.mark.parametrize(
    ("forth", "back", "why"),
    [
        ({}, {}, "write 'features.bidirectionalReplication: enabled'"),
        ({"features": ON}, {}, "write 'features.bidirectionalReplication: enabled'"),
        ({"topics": ".*"}, {}, "write 'features.bidirectionalReplication: enabled'"),
        ({"topics": "ord.*"}, {"topics": "ord.*"}, "copy topics that match 'ord.*' both ways"),
        ({"topics": ".*"}, {"topics": r"orders\..*"}, "copy topics such as 'orders.x' both ways"),
        ({"topics": r"[a-z]+[-.]eu\.\w*"}, {"topics": "(p|.*eu).*"}, "copy topics such as 'a-eu.x' both ways"),
        ({"topics": r"(eu|us)\.orders"}, {"topics": r"us\..+"}, "copy topics such as 'us.orders' both ways"),
        ({"sink": {"prefix": "x."}}, {"topics": ["x.orders"], "sink": {"static": "orders"}}, "copy orders both ways"),
        ({"features": ON}, {"features": ON}, "both must have the same name"),
        ({"features": ON}, CLUSTER, "bidirectional.mode and bidirectional.headers must be the same"),
        (CLUSTER, {**CLUSTER, "bidirectional": {"mode": "cluster", "headers": {"bidirectional": "x"}}}, "the same"),
    ],
)
def test_a_loop_is_told_with_what_to_do(tmp_path: Path, forth: Any, back: Any, why: str) -> None:
    (message,) = told(tmp_path, forth, back)
    assert why in message


@pytest.mark.parametrize(
    ("forth", "back"),
    [
        (CLUSTER, CLUSTER),
        ({"features": ON, "name": "both"}, {"features": ON, "name": "both"}),
        ({"sink": {"prefix": "a."}}, {"sink": {"prefix": "b."}}),
        ({}, {"topics": ["others"]}),
        ({"topics": "a.*"}, {"topics": "a.*", "sink": {"prefix": "b."}}),
        ({"topics": ["x"]}, {"topics": "o.*"}),
        ({"topics": r"a\..*"}, {"topics": r"b\..*"}),
        ({"topics": ".*"}, {"topics": r"orders\..*", "sink": {"prefix": "b."}}),
    ],
)
def test_what_ends_is_no_loop(tmp_path: Path, forth: Any, back: Any) -> None:
    assert told(tmp_path, forth, back) == []


def test_clusters_are_found_whichever_client_has_their_address(tmp_path: Path) -> None:
    """K2K's files may name the servers for each client."""

    def made(source: str, target: str) -> Pipeline:
        path = write_pipeline(tmp_path, source, target, ["orders"])
        document = yaml.safe_load(path.read_text())
        for side in ("source", "target"):
            kafka = document[side]["kafka"]
            servers = kafka["common"].pop("bootstrap.servers")
            for client in (client for cluster, client in CLIENTS if cluster == side):
                kafka.setdefault(client, {})["bootstrap.servers"] = servers
        path.write_text(yaml.safe_dump(document))
        return load_pipeline([path])

    (message,) = loops([made("a:1", "b:1"), made("b:1", "a:1")])
    assert "copy orders both ways" in message


def test_pipelines_in_one_direction_are_no_loop(tmp_path: Path) -> None:
    assert list(loops([make_pipeline(tmp_path, "a:1", "b:1", ["t"]) for _ in range(2)])) == []


def test_validate_refuses_both_files_and_takes_marked_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def both(**rest: Any) -> list[str]:
        forth = write_pipeline(tmp_path, "a:1", "b:1", ["orders"], **rest)
        return ["validate", "-f", str(forth), "-f", str(write_pipeline(tmp_path, "b:1", "a:1", ["orders"], **rest))]

    assert run(both()) != 0
    assert "would go round for ever" in " ".join(capsys.readouterr().err.split())
    assert run(both(**CLUSTER)) == 0
    shown = capsys.readouterr().out
    assert shown.count("the pipeline file is valid") == 2
    assert shown.count("echoes dropped (by __k2k_bidirectional, cluster)") == 2
