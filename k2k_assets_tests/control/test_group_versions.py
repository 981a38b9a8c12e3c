"""Versions of observations and the metadata that carries them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.control.group_versions import Version, generation_above, next_poll, parse

NUMBERS = st.integers(0, 2**62)
CLUSTERS = st.sampled_from(["", "rJLnq9WvT0a4uQd2bX7y1g", "lkc-1a2b3", "redpanda.6f1d.0"])
VERSIONS = st.builds(Version, NUMBERS, NUMBERS, CLUSTERS)


@given(VERSIONS, st.text(max_size=9))
def test_metadata_is_read_back(version: Version, prefix: str) -> None:
    assert parse(version.metadata(prefix), prefix) == version


@given(st.text(max_size=30))
def test_any_other_text_is_foreign_or_a_version_written_exactly_so(text: str) -> None:
    version = parse(text, "k2k_")
    assert version is None or version.metadata("k2k_") == text


@pytest.mark.parametrize(
    "metadata",
    ["", None, "k2k_", "k2k_1", "k2k_1.", "k2k_.1", "k2k_01.1", "k2k_1.1 ", "k2k_1.1.1", "k2k_-1.1", "K2K_1.1", "1.1",
     "k2k_\u0661.1", "k2k_" + "9" * 30 + ".1", "k2k_1.1@", "k2k_1.1@a b"],
)  # fmt: skip
def test_what_is_foreign(metadata: str | None) -> None:
    assert parse(metadata, "k2k_") is None


@given(VERSIONS, VERSIONS)
def test_generations_come_before_polls(one: Version, other: Version) -> None:
    if (one.generation, one.poll) != (other.generation, other.poll):
        assert (one < other) == ((one.generation, one.poll) < (other.generation, other.poll))


def test_a_version_without_a_cluster_may_be_of_any() -> None:
    """Older releases did not write it, and one that is handed back belongs to whoever moves the group next."""
    assert Version(1, 1, "a").is_of_another_cluster("b")
    assert not Version(1, 1, "a").is_of_another_cluster("a")
    assert not Version(1, 1, "a").is_of_another_cluster("")
    assert not Version(1, 1).is_of_another_cluster("b")


def test_polls_rise_with_the_clock_and_without_it() -> None:
    first = next_poll(0, now=1_758_021_130.25)
    assert first == 1_758_021_130_250
    assert next_poll(first, now=1_758_021_130.25) == first + 1
    assert next_poll(first, now=0) == first + 1
    assert next_poll(0) > first


@given(st.integers(0, 10**9), st.sets(VERSIONS, max_size=5))
def test_a_new_generation_is_above_all_that_is_held(claim: int, held: set[Version]) -> None:
    generation = generation_above(claim, held)
    assert generation >= claim
    assert all(Version(generation, 0) > version for version in held)
