"""The meaning of `k2k`'s exit codes, for `--help`. A test compares them with docs/exit-codes.md."""

from __future__ import annotations

INTERRUPTED = 130
DIFFERS = 7

EXIT_CODES: dict[int, str] = {
    0: "done: caught up (--once), or without --once stopped by SIGINT or SIGTERM after a last commit",
    1: "an error that none of the others names",
    2: "a fault in the arguments, in the pipeline file, or in an environment variable",
    3: "a cluster does not answer, or the request was refused as things stand; nothing was lost",
    4: "superseded: a newer instance of the pipeline has taken over from a run with an end (--once)",
    5: "some topics were stopped, each with its reason; the others went on",
    6: "stopped by SIGINT or SIGTERM before it had caught up (--once)",
    DIFFERS: "k2k topics plan alone: topics of the target are not what they have to be like",
    INTERRUPTED: "interrupted at once, by a second signal",
}

OF_START = {code: meaning for code, meaning in EXIT_CODES.items() if code != DIFFERS}
"""Codes of `k2k start`."""

_OF_OTHERS = {
    0: "done",
    4: "superseded: a newer instance of the pipeline has taken over, or started meanwhile",
    DIFFERS: "there is a difference",
    INTERRUPTED: "interrupted",
}
"""Codes that mean less in commands other than `k2k start`."""


def epilog(*codes: int) -> str:
    """The codes as the end of a help page.

    Args:
        codes: Exit codes of the command; without any, those of `k2k start`.
    """
    meanings = {code: _OF_OTHERS.get(code, EXIT_CODES[code]) for code in codes} or OF_START
    lines = [f"  {code:>3}  {meaning}" for code, meaning in meanings.items()]
    return "\n".join(["\b", "Exit codes:", *lines])
