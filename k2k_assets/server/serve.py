"""Listens, and answers until it is interrupted."""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import ip_address

import uvicorn

from k2k_assets.core.errors import Refused
from k2k_assets.core.words import plural
from k2k_assets.server.access import SHORTEST_TOKEN, Token
from k2k_assets.server.api import application
from k2k_assets.server.changes import Changing
from k2k_assets.server.pipeline_files import PipelineFiles
from k2k_assets.server.watches import Watches

_ENDING_SECONDS = 5
TOKEN_VARIABLE = "K2K_TOOL_TOKEN"


def serve(
    files: PipelineFiles,
    host: str,
    port: int,
    token: str,
    by: str,
    read_only: bool,
    announce: Callable[[str], None],
) -> None:
    """Answers until SIGINT or SIGTERM, and returns or raises `KeyboardInterrupt` then.

    Args:
        files: The pipelines.
        host: Address at which it listens.
        port: Port; 0: any that is free.
        token: What whoever asks has to know; empty: nothing, on the loopback address alone.
        by: Who is noted in the commit log.
        read_only: Whether nothing may be changed.
        announce: Is told the address.

    Raises:
        Refused: The address cannot be used, or would be open to everybody.
    """
    listening = _listen(host, port)
    try:
        address, found = listening.getsockname()[:2]
        _ensure_guarded(str(address), token)
        app = application(Watches(files), Changing(by), Token(token) if token else None, read_only)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=_ENDING_SECONDS, server_header=False
        )
        shown = f"[{address}]" if ":" in str(address) else address
        announce(f"http://{shown}:{found}/")
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        kind, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(address[:2], family=kind)
    except OSError as error:
        raise Refused(f"cannot listen at {host}:{port}: {_message(error)}. -p names another port") from None


def _message(error: OSError) -> str:
    # `create_server` adds the address to the words of the system.
    return str(error.strerror or error).partition(" (while ")[0]


def _ensure_guarded(address: str, token: str) -> None:
    if token and len(token) < SHORTEST_TOKEN:
        raise Refused(f"the token has {plural(len(token), 'character')}; it needs {SHORTEST_TOKEN} at least")
    if not token and not ip_address(address.partition("%")[0]).is_loopback:
        raise Refused(
            f"at {address} others can reach the server, so it needs a token: write one into a file and add "
            f"--token-file FILE, or set {TOKEN_VARIABLE}. Without one it listens at 127.0.0.1 alone"
        )
