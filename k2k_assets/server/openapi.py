"""The API, described by OpenAPI 3.1. The schemas are those of the types that the code uses."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from k2k_assets.server import documents
from k2k_assets.server.changes import PositionsBody, TopicsBody

_PREFIX = "#/components/schemas/{model}"
_PIPELINE = "/api/v1/pipelines/{pipeline}"


class Error(BaseModel):
    """Why a request was not answered."""

    error: str


class Topics(BaseModel):
    """The topics of a request that was carried out."""

    topics: list[str]


_ANSWERS: tuple[type[Any], ...] = (
    documents.Pipelines,
    documents.PipelineState,
    documents.MovedGroupsDocument,
    documents.ChangesDocument,
    Topics,
    Error,
)
_BODIES: tuple[type[BaseModel], ...] = (PositionsBody, TopicsBody)


@cache
def openapi() -> dict[str, Any]:
    """The document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "k2k-tool server",
            "version": version("k2k-assets"),
            "description": "Pipelines, their positions, stops and consumer groups. Times are ISO 8601 in UTC; what is "
            "unknown is null.",
        },
        "paths": {
            "/live": {"get": _operation("live", "Whether the server is there", None)},
            "/api/v1/pipelines": {"get": _operation("listPipelines", "All pipelines", "Pipelines")},
            _PIPELINE: _of_one(get=_operation("getPipeline", "Status, lag and stops of a pipeline", "PipelineState")),
            f"{_PIPELINE}/groups": _of_one(get=_operation("getGroups", "Its consumer groups", "MovedGroupsDocument")),
            f"{_PIPELINE}/positions": _of_one(
                post=_operation(
                    "setPositions",
                    "Sets positions: the first request plans, a second one with its `plan` confirms. 409: refused, or "
                    "the plan is another one by now",
                    "ChangesDocument",
                    "PositionsBody",
                )
            ),
            f"{_PIPELINE}/pause": _of_one(post=_operation("pauseTopics", "Pauses topics", "Topics", "TopicsBody")),
            f"{_PIPELINE}/resume": _of_one(post=_operation("resumeTopics", "Resumes topics", "Topics", "TopicsBody")),
        },
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _of_one(**operations: dict[str, Any]) -> dict[str, Any]:
    parameter = {"name": "pipeline", "in": "path", "required": True, "schema": {"type": "string"}}
    return {"parameters": [{**parameter, "description": "`id` of the list of pipelines."}], **operations}


def _operation(name: str, summary: str, answer: str | None, body: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"operationId": name, "summary": summary, "responses": {"200": _content("OK", answer)}}
    if answer is not None:
        found["responses"]["default"] = _content("Not answered, or refused", "Error")
    if body is not None:
        found["requestBody"] = {**_content("", body), "required": True}
        del found["requestBody"]["description"]
    return found


def _content(description: str, schema: str | None) -> dict[str, Any]:
    of = {"$ref": _PREFIX.format(model=schema)} if schema else {"type": "object"}
    return {"description": description, "content": {"application/json": {"schema": of}}}


def _schemas() -> dict[str, Any]:
    """Each type by its name."""
    _, bodies = models_json_schema([(kind, "validation") for kind in _BODIES], ref_template=_PREFIX)
    answers = [(kind.__name__, "serialization", TypeAdapter(kind)) for kind in _ANSWERS]
    _, found = TypeAdapter.json_schemas(answers, ref_template=_PREFIX)  # type: ignore[arg-type]
    return {**found["$defs"], **bodies["$defs"]}
