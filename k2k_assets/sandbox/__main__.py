"""`python -m k2k_assets.sandbox`: fetches Kafka's jars into the cache, as a part of setting up.

`K2K_KAFKA_VERSION` names the version, as for the sandbox itself.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

from k2k_assets.core.errors import K2KError
from k2k_assets.java.class_archive import archive_of, make_archive
from k2k_assets.java.find import find_java
from k2k_assets.sandbox.broker import Broker
from k2k_assets.sandbox.jars import fetch_jars, kafka_manifest


def main() -> int:
    """Checks Java, fetches the jars, and says in one line what stands against it."""
    try:
        java = find_java()
        jars = fetch_jars(kafka_manifest())
    except K2KError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.exit_code
    with contextlib.suppress(K2KError, OSError):  # brokers start without it too
        make_archive(archive_of(jars, java), _start_and_stop)
    return 0


def _start_and_stop(flags: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="k2k-") as directory:
        broker = Broker("source", Path(directory), flags=flags)
        broker.start()
        broker.stop()


if __name__ == "__main__":
    sys.exit(main())
