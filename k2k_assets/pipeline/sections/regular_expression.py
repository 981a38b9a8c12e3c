"""A Java regular expression as the value of a key."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from k2k_assets.pipeline.java_regex import RegexError, compile_java
from k2k_assets.pipeline.sections.values import fault


def ensure_expression(text: str, of_contents: bool = False) -> None:
    """Refuses, from inside a validator, a text that is not a usable regular expression; arguments as `compile_java`."""
    try:
        compile_java(text, of_contents)
    except RegexError as error:
        fault(f"a regular expression ({error})")


def _expression(value: object) -> object:
    if isinstance(value, str):
        ensure_expression(value)
    return value


RegularExpression = Annotated[str, BeforeValidator(_expression)]
"""A Java regular expression, which is matched against whole names."""
