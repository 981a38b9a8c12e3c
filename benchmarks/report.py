"""Shows results, and keeps those of full runs in `RESULTS.md`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")

_HEAD = """# Results of the benchmark

Appended by full runs of `python -m benchmarks`, the newest last. What is measured and how is said in `README.md`.
"""


def say(text: str) -> None:
    """Shows something at once."""
    print(text, flush=True)


def progress(text: str) -> None:
    """Tells what goes on, beside the results."""
    print(f"[{datetime.now():%H:%M:%S}] {text}", file=sys.stderr, flush=True)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def append(sections: Sequence[str]) -> None:
    """Appends a run's sections to the results."""
    text = RESULTS.read_text() if RESULTS.exists() else _HEAD
    title = f"## {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    RESULTS.write_text("\n\n".join([text.rstrip(), title, *sections]) + "\n")


def publish(sections: Sequence[str], is_kept: bool) -> None:
    """Shows a run's sections, and appends them to the results if they are to be kept."""
    say("\n\n" + "\n\n".join(sections))
    if is_kept:
        append(sections)
