"""Metadata and rules of schemas (data contracts): carried over, and a target that loses them is found out."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.pipeline.sections.schema_mapping import Facet
from k2k_assets.registry import schema_ids
from k2k_assets.registry.canonical import schema_digest
from k2k_assets.registry.client import ConfluentRegistry
from k2k_assets.registry.framing import prefix_of
from k2k_assets.registry.schema_ids import SchemaIds, TopicFacet
from k2k_assets.registry.schemas import RegistryUnreachable, SchemaRefused
from k2k_assets.verification.content.expected_headers import ClusterIds
from k2k_assets.verification.content.record_pair import RecordPlace, ShownRecord, differences_of
from k2k_assets_tests.support.copies.pipelines import make_pipeline

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

    As in Confluent's, a version of which nothing is said gets those of the version before.

    Attributes:
        first_id: Of the first schema.
        keeps: Which parts it keeps of what it is given.
        unknown: A part whose name it refuses.
        more: What its owner adds to each schema's metadata and rules.
        behind: How often it answers with a node that does not know the newest schema yet.
        late: A subject that such a node does not know yet, though it has its schemas under others.
    """

    first_id: int
    keeps: tuple[str, ...] = ("schema", "schemaType", "references", "metadata", "ruleSet")
    unknown: str = ""
    more: dict[str, dict[str, Any]] = field(default_factory=dict)
    behind: int = 0
    late: str = ""
    subjects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    ids: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def add(self, subject: str, given: dict[str, Any]) -> int:
        document = {name: value for name, value in given.items() if name in self.keeps and value is not None}
        versions = self.subjects.setdefault(subject, [])
        if document not in versions:
            document = self._with_more({**_contract_of(versions), **document})
        if document not in versions:
            versions.append(document)
        if document not in self.ids:
            self.ids.append(document)
        return self.first_id + self.ids.index(document)

    def _with_more(self, document: dict[str, Any]) -> dict[str, Any]:
        merged = {name: {**document.get(name, {})} for name in self.more}
        for name, fields in self.more.items():
            for key, more in fields.items():
                before = merged[name].get(key)
                merged[name][key] = [*(before or []), *more] if isinstance(more, list) else {**(before or {}), **more}
        return {**document, **merged}

    def answer(self, method: str, path: str, given: dict[str, Any]) -> Any:
        if self.unknown in given:
            raise Refusal(422, 422, f"Unrecognized field: {self.unknown}")
        hidden = self.late if self.behind else ""
        match [method, *path.partition("?")[0].strip("/").split("/")]:
            case ["GET", "schemas", "ids", number] if self.behind and not hidden:
                self.behind -= 1
                raise Refusal(404, 40403, f"Schema {number} not found")
            case ["GET", "schemas", "ids", number] if int(number) - self.first_id >= len(self.ids):
                raise Refusal(404, 40403, f"Schema {number} not found")
            case ["GET", "schemas", "ids", number]:
                return self._shown(self.ids[int(number) - self.first_id])
            case ["GET", "schemas", "ids", number, "versions"] if self.behind and not hidden:
                raise Refusal(404, 40403, f"Schema {number} not found")
            case ["GET", "schemas", "ids", number, "versions"]:
                self.behind = max(0, self.behind - 1)
                document = self.ids[int(number) - self.first_id]
                return [
                    {"subject": subject, "version": versions.index(document) + 1}
                    for subject, versions in self.subjects.items()
                    if document in versions and subject != hidden
                ]
            case ["GET", "subjects", subject, "versions", number] if subject == hidden:
                self.behind -= 1
                raise Refusal(404, 40402, f"Version {number} not found")
            case ["GET", "subjects", subject, "versions"]:
                return list(range(1, len(self.subjects[subject]) + 1))
            case ["GET", "subjects", subject, "versions", number]:
                return self._shown(self.subjects[subject][int(number) - 1])
            case ["POST", "subjects", subject, "versions"]:
                return {"id": self.add(subject, given)}
            case ["POST", "subjects", subject]:
                document = {name: value for name, value in given.items() if name in self.keeps and value is not None}
                if self.behind or document not in self.subjects.get(subject, []):
                    self.behind = max(0, self.behind - 1)
                    raise Refusal(404, 40403, "Schema not found")
                version = self.subjects[subject].index(document) + 1
                return {"id": self.first_id + self.ids.index(document), "version": version, "subject": subject}
            case asked:
                raise ValueError(asked)

    def _shown(self, document: dict[str, Any]) -> dict[str, Any]:
        """As Confluent's shows them, with the number of the version among the properties."""
        metadata = document.get("metadata") or {}
        if not any(metadata.values()):
            return document
        properties = {**metadata.get("properties", {}), "confluent:version": str(self.first_id)}
        return {**document, "metadata": {**metadata, "properties": properties}}


class Refusal(Exception):
    """Status, error code and message."""


def _contract_of(versions: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the newest of them."""
    return {name: each for name, each in (versions[-1] if versions else {}).items() if name in ("metadata", "ruleSet")}


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
            status = 200
            try:
                answer = registry.answer(self.command, self.path, json.loads(given or b"{}"))
            except Refusal as refusal:
                status, code, message = refusal.args
                answer = {"error_code": code, "message": message}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    registry.url = f"http://127.0.0.1:{server.server_port}"
    return server


Sides = tuple[ContractRegistry, ContractRegistry]


def clients(registries: Sides, *, registers: bool = True) -> tuple[ConfluentRegistry, ConfluentRegistry]:
    source, target = registries
    return (
        ConfluentRegistry("source", {"url": source.url}, {}),
        ConfluentRegistry("target", {"url": target.url}, {}, registers=registers),
    )


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
    assert "the target keeps schema 50 with other metadata, or none" in caplog.text
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


@pytest.mark.parametrize("registers", [True, False], ids=["does not know the field", "has the text alone"])
def test_metadata_alone_that_a_target_does_not_take_are_left_away(
    registries: Sides, caplog: pytest.LogCaptureFixture, registers: bool
) -> None:
    """So was the schema registered before metadata were carried over."""
    source, target = registries
    target.unknown = "metadata" if registers else ""
    known = [target.add("copy.orders-value", given(schemaType="AVRO", references=[]))] if not registers else [50]
    schema_id = source.add("orders-value", given(metadata=METADATA))
    mapping = SchemaIds(*clients(registries, registers=registers))
    with caplog.at_level(logging.WARNING, "k2k.registry"):
        assert [mapping.target_id(schema_id, VALUES)] == known
    assert "subject copy.orders-value: schema 50 is used without its metadata: " in caplog.text
    assert [document.get("metadata") for document in target.subjects["copy.orders-value"]] == [None]


def test_rules_that_a_target_does_not_take_are_never_left_away(registries: Sides) -> None:
    source, target = registries
    target.unknown = "ruleSet"
    schema_id = source.add("orders-value", RULED)
    with pytest.raises(SchemaRefused, match="Unrecognized field: ruleSet"):
        SchemaIds(*clients(registries)).target_id(schema_id, VALUES)
    assert target.subjects == {}


def test_what_the_targets_owner_adds_to_all_schemas_stops_no_topic(registries: Sides) -> None:
    source, target = registries
    there, here = clients(registries)
    target.more = {
        "metadata": {"tags": {"o.name": ["PII"]}, "properties": {"owner": "platform", "a": "b"}},
        "ruleSet": {"domainRules": [{**RULE, "name": "audit"}]},
    }
    schema_id = source.add("orders-value", RULED)
    mapped = SchemaIds(there, here).target_id(schema_id, VALUES)
    ours, theirs = schema_digest(there, schema_id), schema_digest(here, mapped)
    assert ours.is_kept_by(theirs)
    assert not theirs.is_kept_by(ours)


@pytest.mark.parametrize("what", ["metadata", "ruleSet"])
def test_rules_that_a_version_took_away_do_not_come_back(registries: Sides, what: str) -> None:
    """A version of which nothing is said gets those of the version before."""
    source, target = registries
    there, here = clients(registries)
    ids = [source.add("orders-value", document) for document in (RULED, {**RULED, what: {}})]
    mapping = SchemaIds(there, here)
    mapped = [mapping.target_id(schema_id, VALUES) for schema_id in ids]
    assert len(set(mapped)) == 2
    assert [here.schema(at) for at in mapped] == [there.schema(at) for at in ids]
    assert not any(target.subjects["copy.orders-value"][1][what].values())


@pytest.mark.parametrize(("on_source", "on_target"), [(0, 2), (2, 0), (3, 3)])
def test_a_node_that_does_not_know_the_newest_schema_yet_is_asked_again(
    registries: Sides, on_source: int, on_target: int
) -> None:
    """Of two nodes behind one address, one takes it, and the other follows."""
    source, target = registries
    schema_id = source.add("orders-value", RULED)
    source.behind, target.behind = on_source, on_target
    assert SchemaIds(*clients(registries)).target_id(schema_id, VALUES) == 50


@pytest.mark.parametrize("facet", ["key", "value"])
def test_a_node_that_knows_a_schema_of_another_topic_only_is_asked_again(registries: Sides, facet: Facet) -> None:
    """One text has one id in all subjects; a producer has just registered it for this topic too."""
    source, target = registries
    schema_id = source.add(f"payments-{facet}", given())
    assert source.add(f"orders-{facet}", given()) == schema_id
    source.late, source.behind = f"orders-{facet}", 2
    mapped = SchemaIds(*clients(registries)).target_id(schema_id, TopicFacet("orders", "copy.orders", facet, False))
    assert list(target.subjects) == [f"copy.orders-{facet}"]
    assert mapped == 50


def test_a_node_that_does_not_know_what_a_schema_refers_to_yet_is_asked_again(registries: Sides) -> None:
    source, target = registries
    source.add("shop.Money", given())
    using = given(references=[{"name": "shop.Money", "subject": "shop.Money", "version": 1}])
    schema_id = source.add("orders-value", using)
    source.late, source.behind = "shop.Money", 2
    SchemaIds(*clients(registries)).target_id(schema_id, VALUES)
    assert set(target.subjects) == {"shop.Money", "copy.orders-value"}


@pytest.mark.parametrize("what", ["schema", "reference"])
def test_one_that_stays_behind_is_waited_for(registries: Sides, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """It says nothing of the source's registry."""
    monkeypatch.setattr(schema_ids, "_PAUSES_UNTIL_KNOWN", (0.0, 0.0))
    source, target = registries
    first = RULED if what == "schema" else given()
    source.add("shop.Money", first)
    using = given(references=[{"name": "shop.Money", "subject": "shop.Money", "version": 1}])
    schema_id = source.add("orders-value", using)
    target.behind = 3
    mapping = SchemaIds(*clients(registries))
    with pytest.raises(RegistryUnreachable, match=r"the target's schema registry at .* does not have .* a moment ago"):
        mapping.target_id(schema_id, VALUES)
    assert mapping.target_id(schema_id, VALUES) > 50


@pytest.mark.parametrize("is_ruled", [False, True])
def test_a_reference_is_to_the_version_that_the_target_made_of_it(registries: Sides, is_ruled: bool) -> None:
    """It does not find there what it was given, where its owner adds metadata to each schema."""
    source, target = registries
    target.more = {"metadata": {"properties": {"team": "platform"}}}
    target.add("shop.Money", given(schema='"long"'))
    source.add("shop.Money", RULED if is_ruled else given())
    using = given(references=[{"name": "shop.Money", "subject": "shop.Money", "version": 1}])
    schema_id = source.add("orders-value", using)
    mapped = SchemaIds(*clients(registries)).target_id(schema_id, VALUES)
    (reference,) = clients(registries)[1].schema(mapped).references
    assert (reference.subject, reference.version) == ("shop.Money", 2)


def test_a_shown_pair_tells_of_lost_rules_and_of_a_schema_that_the_target_does_not_have(
    registries: Sides, tmp_path: Path
) -> None:
    """Rules alone are no difference of the records: a copy made before rules were carried over is none."""
    source, target = registries
    pipeline = make_pipeline(tmp_path, "a:1", "b:1", ["orders"], registries=(source.url, target.url))
    ruled, known = source.add("orders-value", RULED), source.add("orders-key", given())
    bare = target.add("orders-value", given(schemaType="AVRO", references=[]))
    target.ids.append({"schema": '"long"'})

    def record(key: int, value: int) -> ShownRecord:
        return ShownRecord(prefix_of(key) + b"k", prefix_of(value) + b"v", (), 0, by_broker=False)

    place, ids = RecordPlace.parse("orders:0:7"), ClusterIds("a", "b")
    shown = [differences_of(pipeline, place, record(known, ruled), record(key, bare), ids) for key in (bare, 51, 99)]
    assert shown == [([], [], ["value"]), (["key"], [], ["value"]), ([], ["key"], ["value"])]
