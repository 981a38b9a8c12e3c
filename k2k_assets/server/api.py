"""The addresses of the server, and the page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from k2k_assets.core.errors import ClusterUnreachable, K2KError
from k2k_assets.pipeline import Pipeline
from k2k_assets.server import documents
from k2k_assets.server.access import COOKIE, Guard, Token
from k2k_assets.server.changes import Changing, PositionsBody, TopicsBody
from k2k_assets.server.openapi import openapi
from k2k_assets.server.pipeline_files import LoadedFiles
from k2k_assets.server.watch import PipelineWatch
from k2k_assets.server.watches import Watches

B = TypeVar("B", bound=BaseModel)
Answer = Callable[[Request], Awaitable[Response]]

PAGE = Path(__file__).parent / "page"
_CLOSING_SECONDS = 10.0
_LARGEST_BODY = 1_000_000
_LOGIN_SECONDS = 1.0


def application(watches: Watches, changing: Changing, token: Token | None, read_only: bool) -> Starlette:
    """Everything that the server answers.

    Args:
        watches: The pipelines.
        changing: Changes them.
        token: What whoever asks has to know; None: nothing.
        read_only: Whether nothing may be changed.
    """
    api = _Api(watches, changing, token, read_only)
    one = "/api/v1/pipelines/{pipeline}"
    return Starlette(
        routes=[
            Route("/", _file("index.html")),
            Route("/login", _file("login.html")),
            Route("/login", api.login, methods=["POST"]),
            Mount("/static", StaticFiles(directory=PAGE / "static")),
            Route("/live", api.live),
            Route("/api/v1/openapi.json", api.describe),
            Route("/api/v1/pipelines", api.pipelines),
            Route(one, api.pipeline),
            Route(f"{one}/groups", api.groups),
            Route(f"{one}/positions", api.positions, methods=["POST"]),
            Route(f"{one}/pause", api.pause, methods=["POST"]),
            Route(f"{one}/resume", api.resume, methods=["POST"]),
        ],
        middleware=[Middleware(Guard, token=token)],
        exception_handlers={HTTPException: _http_error, K2KError: _refused},
        lifespan=api.lifespan,
    )


class _Api:
    def __init__(self, watches: Watches, changing: Changing, token: Token | None, read_only: bool) -> None:
        self._watches = watches
        self._changing = changing
        self._token = token
        self._read_only = read_only

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Closes clients that nobody needs any more."""
        closing = asyncio.create_task(self._close_idle())
        try:
            yield
        finally:
            closing.cancel()
            with suppress(asyncio.CancelledError):
                await closing
            await run_in_threadpool(self._watches.close)

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(_CLOSING_SECONDS)
            await run_in_threadpool(self._watches.close_idle)

    async def live(self, _: Request) -> Response:
        """That the server is there; it asks no cluster."""
        return JSONResponse({"live": True})

    async def describe(self, _: Request) -> Response:
        """The API, described by OpenAPI."""
        return JSONResponse(openapi())

    async def login(self, request: Request) -> Response:
        """Takes the token, and gives the cookie."""
        given = (await _json(request)).get("token")
        if self._token is None:
            return JSONResponse({"ok": True})
        if not isinstance(given, str) or not self._token.is_given(given):
            await asyncio.sleep(_LOGIN_SECONDS)
            raise HTTPException(401, "this is not the token")
        answer = JSONResponse({"ok": True})
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, self._token.cookie, httponly=True, samesite="strict", secure=secure)
        return answer

    async def pipelines(self, _: Request) -> Response:
        """All pipelines, and what is wrong with files."""
        return JSONResponse(documents.listed(await run_in_threadpool(self._watches.loaded), self._read_only))

    async def pipeline(self, request: Request) -> Response:
        """One pipeline."""
        loaded, watch = await self._find(request)
        return JSONResponse(documents.watched(loaded, await run_in_threadpool(watch.refresh)))

    async def groups(self, request: Request) -> Response:
        """Its consumer groups."""
        _, watch = await self._find(request)
        return JSONResponse(documents.groups((await run_in_threadpool(watch.refresh)).status))

    async def positions(self, request: Request) -> Response:
        """Plans, or sets, positions."""
        watch, body = await self._change(request, PositionsBody)
        done = await run_in_threadpool(self._changing.positions, watch.pipeline, body)
        watch.invalidate()
        stale = body.plan is not None and not done.applied
        answer: dict[str, Any] = {**documents.changes(done.plan, done.decided, done.applied)}
        if stale:
            answer["error"] = "the positions have changed since; look at the changes again"
        return JSONResponse(answer, status_code=409 if stale else 200)

    async def pause(self, request: Request) -> Response:
        """Pauses topics."""
        return await self._topics(request, self._changing.pause)

    async def resume(self, request: Request) -> Response:
        """Resumes topics."""
        return await self._topics(request, self._changing.resume)

    async def _topics(self, request: Request, change: Callable[[Pipeline, TopicsBody], None]) -> Response:
        watch, body = await self._change(request, TopicsBody)
        await run_in_threadpool(change, watch.pipeline, body)
        watch.invalidate()
        return JSONResponse({"topics": body.topics})

    async def _find(self, request: Request) -> tuple[LoadedFiles, PipelineWatch]:
        name = request.path_params["pipeline"]
        found = await run_in_threadpool(self._watches.find, name)
        if found is None:
            raise HTTPException(404, f"there is no pipeline '{name}'")
        return found

    async def _change(self, request: Request, kind: type[B]) -> tuple[PipelineWatch, B]:
        if self._read_only:
            raise HTTPException(403, "the server was started with --read-only")
        _, watch = await self._find(request)
        try:
            return watch, kind.model_validate(await _json(request))
        except ValidationError as error:
            told = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'body'}: {one['msg']}" for one in error.errors())
            raise HTTPException(422, told) from None


async def _json(request: Request) -> dict[str, Any]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST_BODY:
            raise HTTPException(413, "the request is too large")
    try:
        found = json.loads(body)
    except ValueError:
        raise HTTPException(422, "the body is no JSON") from None
    if not isinstance(found, dict):
        raise HTTPException(422, "the body is no JSON object")
    return found


def _file(name: str) -> Answer:
    async def answer(_: Request) -> Response:
        return FileResponse(PAGE / name)

    return answer


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code, headers=error.headers)


async def _refused(_: Request, error: Exception) -> Response:
    status = HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, ClusterUnreachable) else HTTPStatus.CONFLICT
    return JSONResponse({"error": str(error)}, status_code=status)
