"""Lets Dagster's UI show what was discovered: its web server is asked to load the definitions anew.

Dagster loads a code location when it starts, and when its web server is told to. Where that listens says a variable; it
is asked after the tick, which runs in the code server that is replaced.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from urllib.request import Request, urlopen

URL_VARIABLE = "K2K_DAGSTER_URL"

log = logging.getLogger("k2k.dagster")

# A tick that is over by then has saved its cursor.
_AFTER_SECONDS = 3.0
_TIMEOUT_SECONDS = 30.0
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
    """Has the definitions of a code location loaded anew in a moment; false where nobody says where the UI listens.

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


def _reload_or_say_why(url: str, location: str) -> None:
    try:
        reload_location(url, location)
    except (OSError, ValueError) as error:
        log.warning("the definitions are not loaded anew: %s (%s names Dagster's web server)", error, URL_VARIABLE)


def reload_location(url: str, location: str) -> None:
    """Asks Dagster's web server to load a code location anew, and waits until it has.

    Args:
        url: Of the web server.
        location: Name of the code location.

    Raises:
        OSError: It does not answer.
        ValueError: It refuses.
    """
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url} is no http address")
    body = json.dumps({"query": _MUTATION, "variables": {"location": location}}).encode()
    request = Request(f"{url.rstrip('/')}/graphql", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
        answer = json.load(response)
    if errors := answer.get("errors"):
        raise ValueError(f"{url} refuses: {errors[0].get('message')}")
    result = answer["data"]["reloadRepositoryLocation"]
    if "message" in result:
        raise ValueError(f"{url} refuses: {result['message']}")
