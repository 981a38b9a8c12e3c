"""What errors say, and what is said of those that cannot."""

from __future__ import annotations

import pytest

from k2k_assets.errors import words_of


class OfADeadJvm(Exception):
    """As py4j's: it asks the Java process for its words."""

    def __str__(self) -> str:
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("\n  one\n\ntwo  "), ["one", "two"]),
        (ValueError(), ["ValueError"]),
        (OfADeadJvm(), ["OfADeadJvm"]),
    ],
)
def test_an_error_always_has_words(error: Exception, words: list[str]) -> None:
    assert words_of(error) == words
