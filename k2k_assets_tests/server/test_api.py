"""What the server answers, without clusters."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.routing import Route

from k2k_assets.core.errors import ClusterUnreachable, Refused
from k2k_assets.core.stops.reason import KINDS
from k2k_assets.server.changes import Changing
from k2k_assets.server.documents import remedies
from k2k_assets_tests.server.asking import client
from k2k_assets_tests.support.copies.pipelines import write_pipeline

ONE = "/api/v1/pipelines/orders:k2k.orders"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    secret = {"kafka": {"common": {"bootstrap.servers": "t:1", "sasl.password": "hunter2", "sasl.username": "me"}}}
    return write_pipeline(
        tmp_path, "s:1", "t:1", ["orders"], name="orders", target=secret, consumer={"group.id": "k2k.orders"}
    )


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("{", "no JSON"),
        ("[]", "no JSON object"),
        ("{}", "either which offsets, or reset"),
        ('{"offsets": ["orders:0:1"], "reset": true}', "either which offsets, or reset"),
        ('{"offsets": ["orders:x:1"]}', "wanted TOPIC:PARTITION:OFFSET"),
        ('{"offsets": "orders:0:1"}', "offsets"),
        ('{"offsets": ["orders:0:1"], "forse": true}', "forse"),
        ('{"offsets": ["orders:0:1"], "force": "no"}', "force"),
    ],
)
def test_a_body_that_cannot_be_meant_is_refused_with_its_fault(body: str, told: str, file: Path) -> None:
    answer = client(file).post(f"{ONE}/positions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert told in answer.json()["error"]


def test_a_body_without_end_is_not_read_to_its_end(file: Path) -> None:
    body = json.dumps({"topics": ["x" * 2_000_000]})
    assert (
        client(file).post(f"{ONE}/pause", content=body, headers={"content-type": "application/json"}).status_code == 413
    )


@pytest.mark.parametrize(
    ("error", "status"), [(Refused("orders is not paused"), 409), (ClusterUnreachable("the target is away"), 503)]
)
def test_a_refusal_is_told(error: Exception, status: int, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise error

    monkeypatch.setattr(Changing, "resume", refuse)
    answer = client(file).post(f"{ONE}/resume", json={"topics": ["orders"]})
    assert (answer.status_code, answer.json()) == (status, {"error": str(error)})


def test_what_is_not_there_is_said(file: Path) -> None:
    answer = client(file).get("/api/v1/pipelines/nowhere")
    assert (answer.status_code, answer.json()["error"]) == (404, "there is no pipeline 'nowhere'")
    assert client(file).get("/api/v2/pipelines").status_code == 404
    assert client(file).get(f"{ONE}/pause").status_code == 405


def test_a_pipeline_with_a_slash_in_its_name_and_group_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encoded, a slash is one before the address is taken apart."""
    monkeypatch.setattr(Changing, "resume", lambda *_: None)
    group = {"group.id": "k2k/groups"}
    asked = client(write_pipeline(tmp_path, "s:1", "t:1", ["orders"], name="shop/orders", consumer=group))
    (found,) = asked.get("/api/v1/pipelines").json()["pipelines"]
    assert (found["name"], found["group"]) == ("shop/orders", "k2k/groups")
    # As the page does.
    answer = asked.post(f"/api/v1/pipelines/{quote(found['id'], safe='')}/resume", json={"topics": ["orders"]})
    assert (answer.status_code, answer.json()) == (200, {"topics": ["orders"]})


def test_a_cluster_that_does_not_answer_is_told_and_no_secret_is(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any) -> Any:
        raise ClusterUnreachable("the source cluster (s:1) does not answer")

    monkeypatch.setattr("k2k_assets.server.watch.both_clusters", unreachable)
    asked = client(file)
    answers = [asked.get(path) for path in ("/api/v1/pipelines", ONE, f"{ONE}/groups")]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert answers[1].json() == {
        "id": "orders:k2k.orders",
        "files": [str(file)],
        "error": "the source cluster (s:1) does not answer",
        "status": None,
        "stops": [],
    }
    assert not [answer for answer in answers if "hunter2" in answer.text]


def test_the_remedies_of_all_stops_can_be_sent() -> None:
    found = {code: list(remedies(kind.example().to_do())) for code, kind in KINDS.items()}
    asked = {code for code, kind in KINDS.items() if "k2k-tool set -f FILE" in kind.example().to_do()}
    told = {code for code, bodies in found.items() if bodies}
    # What is left has a place for an offset that only people can fill in.
    assert {code for code in asked - told if "OFFSET" not in KINDS[code].example().to_do()} == set()
    assert len(told) > 10
    assert any(body["acceptNewTopic"] for bodies in found.values() for body in bodies)
    assert any(body["acceptForeignRecords"] for bodies in found.values() for body in bodies)


def test_the_openapi_document_names_each_address_and_each_schema(file: Path) -> None:
    asked = client(file)
    described = asked.get("/api/v1/openapi.json").json()
    told = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(described)))
    assert told <= described["components"]["schemas"].keys()
    routes = {route.path for route in asked.app.routes if isinstance(route, Route)}  # type: ignore[attr-defined]
    assert set(described["paths"]) == routes - {"/", "/login", "/api/v1/openapi.json"}
