"""Prints the page of what becomes of each key, with its tests: `python -m k2k_assets.pipeline.key_page`.

docs/k2k-keys.md is its output, and a test compares the two. What it says of a key is in key_tests.yaml.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from k2k_assets.pipeline.reference import keys, table

KEY_TESTS = Path(__file__).with_name("key_tests.yaml")
TESTS = "k2k_assets_tests/"
STATES = {
    "works": "as in K2K, and free.",
    "differs": "works, but not in the same way; the row says how.",
    "no effect": "is accepted; the row says why it does nothing.",
    "own": "is not a key of K2K.",
}

_INTRO = """# The keys of K2K, and ours

A row for each key of K2K and of `k2k-offset-mapping`, older spellings included, and for each key of our own, with the
tests that set it and fail where it has no effect. What the keys mean, and their defaults, are in
[pipeline-file.md](pipeline-file.md); the features are in [k2k-compatibility.md](k2k-compatibility.md).

{states}

Properties of Kafka's clients are in [pipeline-file.md](pipeline-file.md#client-properties). Each of Java's names has
its place there, and Kafka's client takes what comes of them:
`k2k_assets_tests/pipeline/clients/test_client_properties.py::test_every_java_name_has_a_fate`,
`k2k_assets_tests/pipeline/clients/test_client_properties.py::test_the_real_library_takes_what_is_translated`.

This page is generated from `k2k_assets/pipeline/key_tests.yaml`: `make docs`.
"""


class KeyTests(NamedTuple):
    """What becomes of a key.

    Attributes:
        state: One of `STATES`.
        words: More about it, or nothing.
        tests: Those that set the key, as `directory/test_file.py::test_name`, below `TESTS`.
    """

    state: str
    words: str
    tests: tuple[str, ...]


def key_tests() -> dict[str, KeyTests]:
    """What key_tests.yaml says, in its order."""
    lines = yaml.safe_load(KEY_TESTS.read_text(encoding="utf-8"))
    return {key: KeyTests(state, words, tuple(tests.split())) for key, (state, words, tests) in lines.items()}


def page() -> str:
    """The whole page as Markdown; a key that key_tests.yaml does not have is a KeyError."""
    states = "\n".join(f"- **{state}**: {words}" for state, words in STATES.items())
    return "\n".join([_INTRO.format(states=states), *_tables()]).rstrip() + "\n"


def _tables() -> Iterator[str]:
    told = key_tests()
    sections: dict[str, list[str]] = {}
    for key in keys():
        sections.setdefault(key.split(".")[0].removesuffix("[]"), []).append(key)
    for section, inside in sections.items():
        yield f"## `{section}`\n"
        yield table(("key", "", "how, and the test"), (_row(key, told[key]) for key in inside))


def _row(key: str, told: KeyTests) -> tuple[str, ...]:
    name, _, form = key.partition(", ")
    tests = ", ".join(f"`{TESTS}{test}`" for test in told.tests)
    return f"`{name}`{form and ', '}{form}", told.state, " ".join(filter(None, (told.words, tests)))


if __name__ == "__main__":
    sys.stdout.write(page())
