"""Reloads the definitions through Dagster's web server, so that the UI shows new topics and groups.

Dagster loads a code location when it starts, and when its web server receives a request for it. A variable has the
server's address. The request comes after the tick, which runs in the code server that the reload replaces. It is tried
again for most of a minute: the first tick often comes before the web server listens.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from k2k_assets.core.deadline import Deadline

URL_VARIABLE = "K2K_DAGSTER_URL"

log = logging.getLogger("k2k.dagster")

# By then the tick has ended and saved its cursor.
_AFTER_SECONDS = 3.0
_TIMEOUT_SECONDS = 30.0
_TRY_SECONDS = 50.0  # after a minute a tick asks anew (`shown_assets`)
_PAUSE_SECONDS = 5.0
_MUTATION = """
mutation ($location: String!) {
  reloadRepositoryLocation(repositoryLocationName: $location) {
    __typename
    ... on PythonError { message }
    ... on ReloadNotSupported { message }
    ... on RepositoryLocationNotFound { message }
    ... on UnauthorizedError { message }
  }
}
"""


def reload_soon(location: str) -> bool:
    """Reloads the definitions of a code location in a moment; false if the address of the web server is unknown.

    Args:
        location: Name of the code location.
    """
    url = os.environ.get(URL_VARIABLE, "").strip()
    if not url:
        return False
    timer = threading.Timer(_AFTER_SECONDS, _reload_or_say_why, (url, location))
    timer.daemon = True
    timer.start()
    return True


def _reload_or_say_why(url: str, location: str, pause: Callable[[float], None] = time.sleep) -> None:
    """Reloads, and tries again while the web server does not answer; a refusal is final."""
    patience = Deadline(_TRY_SECONDS)
    while True:
        try:
            reload_location(url, location)
            return
        except (OSError, ValueError) as error:
            if _is_refusal(error) or patience.expired():
                log.warning("the definitions are not reloaded: %s (%s names Dagster's web server)", error, URL_VARIABLE)
                return
        pause(_PAUSE_SECONDS)


def _is_refusal(error: OSError | ValueError) -> bool:
    """Whether the same request would be refused again: the answer is no, or no answer of a web server of Dagster."""
    return isinstance(error, ValueError) or (isinstance(error, HTTPError) and error.code < 500)


def reload_location(url: str, location: str) -> None:
    """Reloads a code location through Dagster's web server, and waits for the answer.

    Args:
        url: URL of the web server.
        location: Name of the code location.

    Raises:
        OSError: It does not answer.
        ValueError: It refuses.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url} is not an http address")
    body = json.dumps({"query": _MUTATION, "variables": {"location": location}}).encode()
    request = Request(f"{url.rstrip('/')}/graphql", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
        answer = json.load(response)
    if errors := answer.get("errors"):
        raise ValueError(f"{url} refuses: {errors[0].get('message')}")
    result = answer["data"]["reloadRepositoryLocation"]
    if "message" in result:
        raise ValueError(f"{url} refuses: {result['message']}")
