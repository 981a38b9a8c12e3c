"""The child process of `kafka/apart.py`: answers one call after the other until its parent closes the connection."""

from __future__ import annotations

import resource
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from k2k_assets.core.errors import K2KError
from k2k_assets.kafka.apart import Raised
from k2k_assets.kafka.cluster import Cluster


def main(descriptor: int) -> None:
    """Serves a connection.

    Args:
        descriptor: File descriptor of the connection to the parent.
    """
    # No core dumps: this process dies whenever a broker is lost, and nobody examines that.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(EOFError, OSError), Connection(descriptor) as connection, Cluster(*connection.recv()) as cluster:
        while True:
            function, arguments, named = connection.recv()
            cluster.renew_if_disturbed()
            connection.send(_outcome(function, cluster, arguments, named))


def _outcome(
    function: Callable[..., Any], cluster: Cluster, arguments: tuple[object, ...], named: Mapping[str, object]
) -> Any:
    try:
        return function(cluster, *arguments, **named)
    except K2KError as error:
        return Raised(error)
    except Exception:
        return Raised(RuntimeError(traceback.format_exc()))


if __name__ == "__main__":
    main(int(sys.argv[1]))
