"""`python -m k2k_assets.sandbox`: fetches Kafka's jars into the cache, as a part of setting up; starts nothing."""

from __future__ import annotations

import sys

from k2k_assets.errors import K2KError
from k2k_assets.sandbox.jars import fetch_jars
from k2k_assets.sandbox.java import find_java


def main() -> int:
    """Checks Java, fetches the jars, and says in one line what stands against it."""
    try:
        find_java()
        fetch_jars()
    except K2KError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
