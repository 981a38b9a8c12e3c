"""Metadata and rules of schemas (data contracts): carried over, and a target that loses them is found out."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from k2k_assets.registry.canonical import schema_digest
from k2k_assets.registry.client import ConfluentRegistry
from k2k_assets.registry.schema_ids import SchemaIds, TopicFacet
from k2k_assets.registry.schemas import SchemaRefused

VALUES = TopicFacet("orders", "copy.orders", "value")
TEXT = '{"type": "record", "name": "o", "fields": [{"name": "mail", "type": "string"}]}'
RULE = {
    "name": "encrypt", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "ENCRYPT", "tags": ["PII"],
    "params": {"encrypt.kek.name": "kek"}, "onFailure": "ERROR,NONE", "disabled": False,
}  # fmt: skip
METADATA = {"tags": {"o.mail": ["PII"]}, "properties": {"owner": "shop"}}


@dataclass
class ContractRegistry:
    """A registry over HTTP, as far as copying needs it, in which metadata and rules belong to a schema.

    Attributes:
        first_id: Of the first schema.
        keeps: Which parts it keeps of what it is given.
    """

    first_id: int
    keeps: tuple[str, ...] = ("schema", "schemaType", "references", "metadata", "ruleSet")
    subjects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    ids: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def add(self, subject: str, given: dict[str, Any]) -> int:
        document = {name: value for name, value in given.items() if name in self.keeps and value}
        versions = self.subjects.setdefault(subject, [])
        if document not in versions:
            versions.append(document)
        if document not in self.ids:
            self.ids.append(document)
        return self.first_id + self.ids.index(document)

    def answer(self, method: str, path: str, given: dict[str, Any]) -> Any:
        match [method, *path.partition("?")[0].strip("/").split("/")]:
            case ["GET", "schemas", "ids", number]:
                return self._shown(self.ids[int(number) - self.first_id])
            case ["GET", "schemas", "ids", number, "versions"]:
                document = self.ids[int(number) - self.first_id]
                return [
                    {"subject": subject, "version": versions.index(document) + 1}
                    for subject, versions in self.subjects.items()
                    if document in versions
                ]
            case ["GET", "subjects", subject, "versions"]:
                return list(range(1, len(self.subjects[subject]) + 1))
            case ["GET", "subjects", subject, "versions", number]:
                return self._shown(self.subjects[subject][int(number) - 1])
            case ["POST", "subjects", subject, "versions"]:
                return {"id": self.add(subject, given)}
            case asked:
                raise ValueError(asked)

    def _shown(self, document: dict[str, Any]) -> dict[str, Any]:
        """As Confluent's shows them, with the number of the version among the properties."""
        metadata = document.get("metadata")
        if not metadata:
            return document
        properties = {**metadata.get("properties", {}), "confluent:version": str(self.first_id)}
        return {**document, "metadata": {**metadata, "properties": properties}}


@pytest.fixture
def registries() -> Iterator[tuple[ContractRegistry, ContractRegistry]]:
    """A source and a target, whose ids differ."""
    made = ContractRegistry(7), ContractRegistry(50)
    servers = [_server(registry) for registry in made]
    yield made
    for server in servers:
        server.shutdown()
        server.server_close()


def _server(registry: ContractRegistry) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            given = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.dumps(registry.answer(self.command, self.path, json.loads(given or b"{}"))).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    registry.url = f"http://127.0.0.1:{server.server_port}"
    return server


Sides = tuple[ContractRegistry, ContractRegistry]


def clients(registries: Sides) -> tuple[ConfluentRegistry, ConfluentRegistry]:
    source, target = registries
    return ConfluentRegistry("source", {"url": source.url}, {}), ConfluentRegistry("target", {"url": target.url}, {})


def given(**contract: Any) -> dict[str, Any]:
    return {"schema": TEXT, **contract}


RULED = given(metadata=METADATA, ruleSet={"domainRules": [RULE]})


def test_one_text_with_and_without_rules_is_two_schemas_there_too(registries: Sides) -> None:
    (source, target), (there, here) = registries, clients(registries)
    ids = [source.add("orders-value", document) for document in (given(), RULED)]
    mapping = SchemaIds(there, here)

    mapped = [mapping.target_id(schema_id, VALUES) for schema_id in ids]

    assert len(set(mapped)) == 2
    kept = target.subjects["copy.orders-value"]
    assert [set(document) & {"metadata", "ruleSet"} for document in kept] == [set(), {"metadata", "ruleSet"}]
    assert kept[1]["ruleSet"]["domainRules"][0].items() >= {k: v for k, v in RULE.items() if v}.items()
    properties = kept[1]["metadata"]["properties"]
    assert properties == METADATA["properties"], "the number of the version is the registry's own"
    digests = [[schema_digest(client, at) for at in of_side] for client, of_side in ((there, ids), (here, mapped))]
    same = [[ours.is_kept_by(theirs) for theirs in digests[1]] for ours in digests[0]]
    assert same == [[True, True], [False, True]], "a target may have rules for a schema without"


@pytest.mark.parametrize("lost", [{"ruleSet"}, {"metadata", "ruleSet"}, {"metadata"}])
def test_a_target_that_loses_rules_or_the_tags_they_go_by_stops_the_topic(registries: Sides, lost: set[str]) -> None:
    source, target = registries
    target.keeps = tuple(part for part in target.keeps if part not in lost)
    schema_id = source.add("orders-value", RULED)
    with pytest.raises(
        SchemaRefused, match=r"copy\.orders-value: it is kept as schema 50 with other rules or metadata"
    ):
        SchemaIds(*clients(registries)).target_id(schema_id, VALUES)


def test_metadata_alone_that_a_target_does_not_keep_are_told(
    registries: Sides, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = registries
    there, here = clients(registries)
    target.keeps = ("schema",)
    schema_id = source.add("orders-value", given(metadata=METADATA))
    with caplog.at_level(logging.WARNING, "k2k.registry"):
        mapped = SchemaIds(there, here).target_id(schema_id, VALUES)
    assert "the target keeps schema 50 without its metadata" in caplog.text
    assert schema_digest(there, schema_id).is_kept_by(schema_digest(here, mapped))


def test_what_registries_may_leave_out_makes_no_difference(registries: Sides) -> None:
    source, target = registries
    there, here = clients(registries)
    bare = {name: value for name, value in RULE.items() if value}
    full = {**RULE, "doc": None}
    ids = [
        registry.add("s", given(metadata={**METADATA, "sensitive": sensitive}, ruleSet={"domainRules": [rule]}))
        for registry, rule, sensitive in ((source, full, []), (target, bare, None))
    ]
    assert there.schema(ids[0]) == here.schema(ids[1])
    assert there.schema(ids[0]) != replace(here.schema(ids[1]), rules="")
