"""Java's properties files."""

from __future__ import annotations

import pytest

from k2k_assets.conversion.java_properties import parse_properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1\nb : 2\nc 3\nd\n", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("# c=1\n  ! d=2\n\n   e = 3 ", {"e": "3 "}),
        ("a = x,\\\n    y\\\r\n  ,z\nb=1", {"a": "x,y,z", "b": "1"}),
        ("a=end\\\\\nb=1", {"a": "end\\", "b": "1"}),
        (r"a\ b\:c=\t\u00e4\=\\d", {"a b:c": "\tä=\\d"}),
        (r"a=\ud83d\ude00 \ud83d", {"a": "\N{GRINNING FACE} \N{REPLACEMENT CHARACTER}"}),
        ("A->B.enabled = true", {"A->B.enabled": "true"}),
        ("a=x=y:z", {"a": "x=y:z"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\\\n# no comment", {"a": "1# no comment"}),
        ("", {}),
    ],
)
def test_lines_become_properties_as_in_java(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties
