"""The server's application without a network, over pipelines whose clusters are not asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from k2k_assets.server.access import Token
from k2k_assets.server.api import application
from k2k_assets.server.changes import Changing
from k2k_assets.server.pipeline_files import PipelineFiles
from k2k_assets.server.watches import Watches

TOKEN = "a token that nobody guesses"


def client(file: Path, token: str = "", read_only: bool = False, **more: Any) -> TestClient:
    """A browser at the server's door; by default it asks for `localhost`.

    Args:
        file: The pipeline file.
        token: Of the server.
        read_only: Whether nothing may be changed.
        more: For the client, such as `base_url`.
    """
    app = application(Watches(PipelineFiles([(file,)])), Changing("tests"), Token(token) if token else None, read_only)
    return TestClient(app, **{"base_url": "http://localhost:8080", **more})
