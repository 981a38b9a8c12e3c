"""A registry with contexts, which answers as Confluent's does (its ContextFilter and QualifiedSubject)."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote, urlsplit

from k2k_assets.registry.schemas import Reference, Schema, SchemaNotFound
from k2k_assets_tests.support.services.http_server import AnsweringHandler, HttpServer
from k2k_assets_tests.support.services.registries import RegistryInMemory

_SUBJECT = re.compile(r":(\.[^:]*):(.*)")
_IN_CONTEXT = re.compile(r"/contexts/([^/]+)(/.*)")


class ContextRegistry(HttpServer):
    """Used as a context manager.

    Args:
        fillers: How many schemas each context has already, so that the same id means different schemas.

    Attributes:
        contexts: What each has; `.` is the default one.
    """

    def __init__(self, **fillers: int) -> None:
        self._fillers = fillers
        self.contexts: dict[str, RegistryInMemory] = {}
        super().__init__(self._handler())

    def url(self, context: str = "") -> str:
        """Where it answers, in a context."""
        return f"{self.address}/contexts/{context}" if context else self.address

    def context(self, name: str) -> RegistryInMemory:
        """What a context has; it comes with its first use."""
        if name not in self.contexts:
            self.contexts[name] = RegistryInMemory(1)
            for number in range(self._fillers.get(name.strip(".") or "default", 0)):
                self.contexts[name].register(f"filler-{number}", Schema("AVRO", f'{{"type": "filler{number}"}}'))
        return self.contexts[name]

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        """Status and JSON for a request: one with a body registers or looks up."""
        context = "."
        if found := _IN_CONTEXT.fullmatch(path):
            context, path = found.groups()
        _, kind, *rest = path.split("/")
        try:
            if kind == "schemas":
                return 200, self._by_id(context, int(rest[1]), rest[2:])
            return 200, self._by_subject(context, unquote(rest[0]), rest[1:], body)
        except SchemaNotFound as missing:
            return 404, {"error_code": 40403, "message": str(missing)}

    def _by_id(self, context: str, schema_id: int, rest: list[str]) -> Any:
        registry = self.context(context)
        if not rest:
            return _document(registry.schema(schema_id))
        prefix = "" if context == "." else f":{context}:"
        return [{"subject": f"{prefix}{at.subject}", "version": at.version} for at in registry.places(schema_id)]

    def _by_subject(self, context: str, subject: str, rest: list[str], body: Any) -> Any:
        if found := _SUBJECT.fullmatch(subject):
            context, subject = found.groups()
        registry = self.context(context)
        if rest == ["versions"] and body:
            return {"id": registry.register(subject, _schema(body))}
        if rest == ["versions"]:
            if not registry.versions(subject):
                raise SchemaNotFound(f"Subject '{subject}' not found.")
            return list(registry.versions(subject))
        if rest:
            version = int(rest[1])
            return {"subject": subject, "version": version, "id": 1, **_document(registry.version(subject, version))}
        return self._looked_up(context, subject, _schema(body))

    def _looked_up(self, context: str, subject: str, schema: Schema) -> Any:
        """What is asked for in the default context is found in others too."""
        for name in [context, *self.contexts] if context == "." else [context]:
            registry = self.context(name)
            try:
                found = {"id": registry.id_of(subject, schema), "version": registry.version_of(subject, schema)}
            except SchemaNotFound:
                continue
            return {"subject": subject if name == "." else f":{name}:{subject}", **found, **_document(schema)}
        raise SchemaNotFound("Schema not found")

    def _handler(self) -> type[AnsweringHandler]:
        registry = self

        class Handler(AnsweringHandler):
            def _answer(self) -> None:
                body = self.body()
                status, said = registry.answer(urlsplit(self.path).path, json.loads(body) if body else None)
                self.answer(status, {"Content-Type": "application/json"}, json.dumps(said).encode())

            do_GET = do_POST = _answer  # noqa: N815

        return Handler


def _document(schema: Schema) -> dict[str, Any]:
    references = [reference._asdict() for reference in schema.references]
    return {"schema": schema.text, "schemaType": schema.kind, "references": references}


def _schema(body: Any) -> Schema:
    references = tuple(Reference(r["name"], r["subject"], r["version"]) for r in body.get("references", ()))
    return Schema(body.get("schemaType", "AVRO"), body["schema"], references)
