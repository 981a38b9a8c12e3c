"""On real clusters the content check continues at its verified position, and begins again after any doubt.

Here it compares by records; by batches: `by_batches/test_on_clusters.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import pytest

from k2k_assets.control.assignment_records import settings_key, settings_value
from k2k_assets.control.assignment_writing import write_record
from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.mapping.algebra.fold import Covered
from k2k_assets.mapping.index import MappingIndex
from k2k_assets.mapping.index.manifest import read_manifest, switch
from k2k_assets.verification.content import sampling
from k2k_assets.verification.content.sampling import Unverified, looks
from k2k_assets.verification.verdict import Judgement, Verdict, VerifiedPosition
from k2k_assets_tests.support.brokers.kafka import Record, create_topic, delete_topic
from k2k_assets_tests.support.memory.mapping_topic import local
from k2k_assets_tests.support.suite.storms import in_storms
from k2k_assets_tests.verification.world import NOW, World

pytestmark = [pytest.mark.integration, pytest.mark.spark]

BUDGET = 200


@pytest.fixture(autouse=True)
def _small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """By records alone: by batches all of it would be seen at once."""
    monkeypatch.setattr("k2k_assets.verification.content.check._PROOF_SECONDS", 0.0)
    monkeypatch.setattr(sampling, "RECORDS_IN_ALL", BUDGET)
    monkeypatch.setattr(sampling, "LEAST_PER_PARTITION", 16)


def _records(start: int, end: int, wrong: Sequence[int] = ()) -> list[Record]:
    return [Record(b"k%d" % n, b"wrong" if n in wrong else b"v%d" % n, [], NOW + n) for n in range(start, end)]


def _copied(world: World, start: int, end: int, wrong: Sequence[int] = (), at: int | None = None) -> None:
    """Writes records on both sides, and their mapping."""
    world.source(_records(start, end))
    world.target(_records(start, end, wrong))
    world.hand.mapping(world.topic, (start, end), [(start, start if at is None else at, end - start)])
    world.hand.commit(world.topic, end)


def _position(verdict: Verdict) -> VerifiedPosition:
    (position,) = verdict.verified
    return position


def _until_all_is_seen(world: World) -> Verdict:
    verdict = world.verdict("content")
    for _ in range(40):
        if _position(verdict).looked_at == _position(verdict).readable:
            return verdict
        assert verdict.passed, verdict
        assert verdict.counts["compared"] <= BUDGET
        verdict = world.verdict("content")
    raise AssertionError(f"not all of it was looked at: {verdict}")


@pytest.mark.slow
def test_it_goes_on_from_the_verified_position_and_sees_all_in_bounded_time(world: World) -> None:
    _copied(world, 0, 260)
    first = world.verdict("content")
    assert first.passed, first
    assert (_position(first).verified_to, _position(first).end, _position(first).readable) == (260, 260, 260)
    assert _position(first).looked_at <= BUDGET
    assert "% of what can be compared was looked at record by record" in first.summary
    everything = _until_all_is_seen(world)
    assert everything.summary.endswith("are the same on both clusters"), "nothing else is to be said"

    _copied(world, 260, 320)
    verdict = world.verdict("content")
    position = _position(verdict)
    assert (position.verified_to, position.looked_at) == (320, 320), "all that is new was looked at, and is kept"
    assert verdict.counts["verified_to_the_end"] == 1


@pytest.mark.slow
def test_a_fault_in_what_is_new_is_found_at_once_and_stays_until_it_is_verified_good(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _copied(world, 0, 300)
    assert world.verdict("content").passed
    _copied(world, 300, 400, wrong=[351])
    verdict = world.verdict("content")
    assert verdict.judgement is Judgement.FAILED
    assert [offender.source_offset for offender in verdict.offenders] == [351]
    assert (_position(verdict).verified_to, _position(verdict).bad) == (None, 1), "it falls back"

    _copied(world, 400, 410)
    again = world.verdict("content")
    assert [offender.source_offset for offender in again.offenders] == [351]

    # The part of it that is not reached is still bad.
    monkeypatch.setattr("k2k_assets.verification.content.survey._MOST_PARTITIONS", 0)
    unreached = world.verdict("content")
    assert unreached.judgement is Judgement.FAILED
    assert "351 to 351 was found wrong before, and was not looked at again yet" in unreached.summary
    monkeypatch.undo()
    _mend(world, 351)
    assert world.verdict("content").passed


def _mend(world: World, offset: int) -> None:
    """Copies on from an earlier position, by hand."""
    world.hand.override(world.topic, offset)
    again = world.target(_records(offset, 410))
    world.hand.mapping(world.topic, (offset, 410), [(offset, again[0], len(again))])
    world.hand.commit(world.topic, 410)


@pytest.mark.slow
def test_an_older_fault_is_found_by_a_second_look(world: World) -> None:
    sample = looks({0: Unverified(fresh=[Covered(0, 300)])}, None, seed=1)[0].first
    hidden = next(n for n in range(300) if not any(start <= n < end for start, end in sample))
    _copied(world, 0, 300, wrong=[hidden])
    first = world.verdict("content")
    assert first.passed, "the first sample, which is drawn from the index's number, does not hold it"
    assert _position(first).verified_to == 300
    for _ in range(40):
        if not (verdict := world.verdict("content")).passed:
            assert [offender.source_offset for offender in verdict.offenders] == [hidden]
            return
    raise AssertionError("the fault was not found in a lap")


@pytest.mark.slow
def test_what_was_copied_anew_is_not_taken_for_verified(world: World) -> None:
    _copied(world, 0, 150)
    assert _position(world.verdict("content")).looked_at == 150
    world.hand.override(world.topic, 20)
    again = world.target(_records(20, 150, wrong=[77]))
    world.hand.mapping(world.topic, (20, 150), [(20, again[0], len(again))])
    world.hand.commit(world.topic, 150)
    verdict = world.verdict("content")
    assert [offender.source_offset for offender in verdict.offenders] == [77]


@pytest.mark.slow
@pytest.mark.parametrize("doubt", ["index", *in_storms(("settings",), ("file",))])
def test_a_doubt_has_it_begin_anew(world: World, doubt: str) -> None:
    _copied(world, 0, 260)
    _until_all_is_seen(world)
    root = local(MappingIndex.open(world.hand.pipeline).root)
    if doubt == "index":
        _without_segments(world)
    elif doubt == "settings":
        _change_settings(world)
    else:
        (root / "checks" / "content.json").write_text("{broken")
    verdict = world.verdict("content")
    assert verdict.passed, verdict
    assert _position(verdict).looked_at <= BUDGET


def _change_settings(world: World) -> None:
    pipeline, before = world.hand.pipeline, CopySettings.of(world.hand.pipeline)
    # As the driver does that copied under them.
    write_record(pipeline, settings_key(pipeline.group, before.fingerprint), settings_value(before))
    features = pipeline.features.model_copy(update={"header_replication": False})
    world.hand.pipeline = pipeline.model_copy(update={"features": features})
    assert CopySettings.of(world.hand.pipeline) != before


def _without_segments(world: World) -> None:
    """Files are lost: the next update builds the index from the start."""
    root = local(MappingIndex.open(world.hand.pipeline).root)
    shutil.rmtree(root / "segments")


@pytest.mark.slow
def test_a_topic_that_was_created_anew_is_another_one(world: World) -> None:
    _copied(world, 0, 50)
    assert _position(world.verdict("content")).looked_at == 50
    for servers in (world.clusters.source_servers, world.clusters.target_servers):
        delete_topic(servers, world.topic)
        create_topic(servers, world.topic)
    world.source(_records(0, 50))
    world.target(_records(0, 50, wrong=[49]))
    world.hand.mapping(world.topic, (0, 50), [(0, 0, 50)], generation=2)
    world.hand.commit(world.topic, 50)
    verdict = world.verdict("content")
    assert [offender.source_offset for offender in verdict.offenders] == [49]


@pytest.mark.slow
def test_an_index_of_an_earlier_release_has_no_identity_and_is_no_doubt(world: World) -> None:
    _copied(world, 0, 50)
    world.verdict("content")
    root = local(MappingIndex.open(world.hand.pipeline).root)
    manifest = read_manifest(root)
    assert manifest is not None
    assert manifest.identity
    switch(root, manifest.model_copy(update={"identity": ""}))
    assert world.verdict("content").passed
    after = read_manifest(root)
    assert after is not None
    assert after.identity == ""


@pytest.mark.slow
def test_where_it_cannot_be_noted_the_verdict_says_so(world: World) -> None:
    _copied(world, 0, 20)
    world.verdict("content")
    root = local(MappingIndex.open(world.hand.pipeline).root)
    shutil.rmtree(root / "checks")
    (root / "checks").write_text("in the way")
    verdict = world.verdict("content")
    assert verdict.passed
    assert f"cannot be noted in {root / 'checks' / 'content.json'}" in verdict.summary
