"""Tracing headers as the pipeline file asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.pipeline.sections.added_headers import AddedHeader
from k2k_assets_tests.pipeline.files import changed, load_text

ALL = (
    AddedHeader("__k2k_partition", "partition"),
    AddedHeader("__k2k_offset", "offset"),
    AddedHeader("__k2k_topic", "topic"),
    AddedHeader("__k2k_pipeline", "text", "my-pipeline"),
)


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        ("disabled", ()),
        ("enabled", ALL),
        ({}, ()),
        ({"topic": "enabled"}, (ALL[2],)),
        ({"pipeline": "enabled", "partition": "enabled", "offset": "disabled"}, (ALL[0], ALL[3])),
    ],
)
def test_all_or_one_by_one_in_the_order_of_the_reference(
    tmp_path: Path, flags: object, wanted: tuple[AddedHeader, ...]
) -> None:
    pipeline = load_text(tmp_path, changed({"name": "my-pipeline", "features/tracingHeaders": flags}))
    assert pipeline.added_headers == wanted


def test_each_has_a_name_of_its_own(tmp_path: Path) -> None:
    names = {"partition": "k2k.source.partition", "topic": "тема", "pipeline": "k2k.source.partition"}
    text = changed({"features/tracingHeaders": "enabled", "tracing/headers": names})
    found = [header.name for header in load_text(tmp_path, text).added_headers]
    assert found == ["k2k.source.partition", "__k2k_offset", "тема", "k2k.source.partition"]


def test_other_tracing_headers_are_another_copy(tmp_path: Path) -> None:
    versions = [
        load_text(tmp_path, changed(changes)).code_version
        for changes in (
            {},
            {"features/tracingHeaders": "enabled"},
            {"features/tracingHeaders": {"offset": "enabled"}},
            {"features/tracingHeaders": {"offset": "enabled"}, "tracing/headers/offset": "o"},
        )
    ]
    assert len(set(versions)) == 4
    named = changed({"tracing/headers/offset": "o"})
    assert load_text(tmp_path, named).code_version == versions[0], "names without headers change no record"
