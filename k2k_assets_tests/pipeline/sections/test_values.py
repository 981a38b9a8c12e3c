"""Durations, flags and numbers as the file writes them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from dagster._core.definitions.utils import is_valid_owner
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from k2k_assets.pipeline.sections.values import Duration, Flag, format_duration
from k2k_assets_tests.pipeline.files import changed, load_text, refusal

_DURATION: TypeAdapter[timedelta] = TypeAdapter(Duration)
_FLAG: TypeAdapter[bool] = TypeAdapter(Flag)
_SECONDS = {"milli": 0.001, "millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600}


@given(
    st.integers(0, 999_999_999),
    st.sampled_from([" ", "\t", "   "]),
    st.sampled_from(sorted(_SECONDS)),
    st.sampled_from(["", "s"]),
)
def test_durations(count: int, space: str, unit: str, plural: str) -> None:
    read = _DURATION.validate_python(f"{count}{space}{unit}{plural}")
    assert read.total_seconds() == pytest.approx(count * _SECONDS[unit])


def test_a_retention_of_nothing_is_refused(tmp_path: Path) -> None:
    assert "a duration above zero, found '0 hours'" in refusal(tmp_path, changed({"index/retention": "0 hours"}))


@given(st.integers(0, 10**12))
def test_a_duration_is_shown_as_it_is_read(millis: int) -> None:
    shown = format_duration(timedelta(milliseconds=millis))
    if len(shown.split()[0]) <= 9:
        assert _DURATION.validate_python(shown) == timedelta(milliseconds=millis)


@pytest.mark.parametrize(
    "value",
    [
        *("", "5", "5s", "5 s", "5seconds", "-1 seconds", "1.5 seconds", " 5 seconds", "5 seconds ", "5 days"),
        *("٣ seconds", "9" * 30 + " hours", 5, True, None, ["5 seconds"]),
    ],
)
def test_what_is_no_duration(value: object) -> None:
    with pytest.raises(ValidationError, match="a duration such as '5 seconds'"):
        _DURATION.validate_python(value)


@pytest.mark.parametrize(("value", "read"), [("enabled", True), ("disabled", False)])
def test_flags(value: str, read: bool) -> None:
    assert _FLAG.validate_python(value) is read


@pytest.mark.parametrize("value", [True, False, "true", "Enabled", "on", 1, None, {}])
def test_what_is_no_flag(value: object) -> None:
    with pytest.raises(ValidationError, match="enabled or disabled"):
        _FLAG.validate_python(value)


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "x", [1], 2**31])
def test_what_is_no_count(tmp_path: Path, value: object) -> None:
    assert "coordination.commit.batchSize: expected a" in refusal(
        tmp_path, changed({"coordination/commit/batchSize": value})
    )


@pytest.mark.parametrize("owner", ["team:payments", "ann@example.com", "a.b+c@mail.example.org"])
def test_owners(tmp_path: Path, owner: str) -> None:
    assert load_text(tmp_path, changed({"owners": [owner]})).owners == (owner,)
    assert is_valid_owner(owner), "Dagster takes it too"


@pytest.mark.parametrize("owner", ["", "ann", "team:", "team:a b", "ann@example", "@example.com", 1])
def test_what_is_no_owner(tmp_path: Path, owner: object) -> None:
    assert "owners[0]: expected a" in refusal(tmp_path, changed({"owners": [owner]}))


def test_configs_are_text(tmp_path: Path) -> None:
    config = {"a": True, "b": 1, "c": "x", "d": 0.5}
    pipeline = load_text(tmp_path, changed({"topicCreation/control/common/config": config, "spark/config": config}))
    assert pipeline.spark.config == {"a": "true", "b": "1", "c": "x", "d": "0.5"}
    assert pipeline.topic_creation.control.common.config == pipeline.spark.config
    assert "found a list" in refusal(tmp_path, changed({"spark/config": {"a": [1]}}))
