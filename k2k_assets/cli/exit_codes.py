"""What the exit codes of `k2k` mean: shown in `--help`, documented in docs/exit-codes.md, tested to agree."""

from __future__ import annotations

INTERRUPTED = 130

EXIT_CODES: dict[int, str] = {
    0: "done: caught up (--once), or without --once stopped by SIGINT or SIGTERM after a last commit",
    1: "an error that none of the others names",
    2: "a fault in the arguments, in the pipeline file, or in an environment variable",
    3: "a cluster does not answer, or the request was refused as things stand; nothing was lost",
    4: "superseded: a newer instance of the pipeline has taken over from a run with an end (--once)",
    5: "some topics were stopped, each with its reason; the others went on",
    6: "stopped by SIGINT or SIGTERM before it had caught up (--once)",
    INTERRUPTED: "interrupted at once, by a second signal",
}


_OF_OTHERS = {
    0: "done",
    4: "superseded: a newer instance of the pipeline has taken over, or started meanwhile",
    INTERRUPTED: "interrupted",
}
"""What codes mean to commands other than `k2k start`, where that is less."""


def epilog(*codes: int) -> str:
    """The codes as the end of a help page.

    Args:
        codes: Those that the command ends with; none: all, as `k2k start` does.
    """
    meanings = {code: _OF_OTHERS.get(code, EXIT_CODES[code]) for code in codes} or EXIT_CODES
    lines = [f"  {code:>3}  {meaning}" for code, meaning in meanings.items()]
    return "\n".join(["\b", "Exit codes:", *lines])
