"""How a slot handles the error that ends a session."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from k2k_assets.core.topic_partition import TopicPartition
from k2k_assets.registry.schemas import MoreToRegister, RegistryUnreachable
from k2k_assets.replication.slot.slot import Slot
from k2k_assets.transport.errors import NotByTransport, Restart, RetryAtOnce
from k2k_assets.transport.librdkafka.transport import LibrdkafkaTransport
from k2k_assets_tests.support.copies.pipelines import make_pipeline
from k2k_assets_tests.support.memory.plans import slot_plan

BROKERS = ("127.0.0.1:1", "127.0.0.1:1")


@pytest.mark.parametrize(("trouble", "pauses"), [(RetryAtOnce("in another way"), 0), (Restart("it is away"), 1)])
def test_only_what_may_pass_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Restart, pauses: int
) -> None:
    pipeline = make_pipeline(tmp_path, *BROKERS, ["t"], features={"exactlyOnce": "enabled"})
    slot = Slot(slot_plan(pipeline, {TopicPartition("t", 0): 1}))
    session, wait = Mock(side_effect=[trouble, True]), Mock()
    monkeypatch.setattr(slot, "_session", session)
    monkeypatch.setattr(slot, "_wait", wait)
    assert slot.run().stopped.reasons == {}
    assert (session.call_count, wait.call_count) == (2, pauses)


@pytest.mark.parametrize(
    ("trouble", "progressed"), [(MoreToRegister("it goes on"), True), (RegistryUnreachable("it is away"), False)]
)
def test_schemas_that_come_in_rounds_are_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: RegistryUnreachable, progressed: bool
) -> None:
    """A run with an end gives up after two minutes without any, and before it the other slots."""
    pipeline = make_pipeline(tmp_path, *BROKERS, ["t"], features={"exactlyOnce": "enabled"})
    slot = Slot(slot_plan(pipeline, {TopicPartition("t", 0): 1}))
    wait = Mock()
    monkeypatch.setattr(slot, "_session", Mock(side_effect=[trouble, True]))
    monkeypatch.setattr(slot, "_wait", wait)
    slot.run()
    wait.assert_called_once_with(trouble, progressed=progressed)


@pytest.mark.librdkafka
@pytest.mark.parametrize(("form", "level"), [("batches", "WARNING"), ("auto", "INFO")])
def test_what_cannot_go_by_batches_goes_on_by_records_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, form: str, level: str
) -> None:
    caplog.set_level("INFO")
    pipeline = make_pipeline(
        tmp_path,
        "127.0.0.1:1",
        "127.0.0.1:1",
        ["t"],
        features={"exactlyOnce": "enabled"},
        transport={"form": form},
    )
    slot = Slot(slot_plan(pipeline, {TopicPartition("t", 0): 1}))
    forms, noted = [], []

    def session(*_: object) -> bool:
        forms.append(type(slot._transport))
        noted.append(slot._memory.transport)
        if len(forms) == 1:
            raise NotByTransport(["records in the format of Kafka before 0.11 (magic 1)"])
        return True

    wait = Mock()
    monkeypatch.setattr(slot, "_session", session)
    monkeypatch.setattr(slot, "_wait", wait)
    assert slot.run().stopped.reasons == {}
    assert [form is LibrdkafkaTransport for form in forms] == [False, True]
    assert not wait.called
    reason = "records in the format of Kafka before 0.11 (magic 1)"
    assert noted == ["batches", f"records: {reason}"]
    told = {each.getMessage(): each.levelname for each in caplog.records}
    assert told[f"slot 0 copies record by record, not by whole batches: {reason}"] == level


@pytest.mark.librdkafka
def test_a_file_that_wants_records_has_no_reason_to_note(tmp_path: Path) -> None:
    pipeline = make_pipeline(tmp_path, *BROKERS, ["t"], features={"exactlyOnce": "enabled"})
    assert Slot(slot_plan(pipeline, {TopicPartition("t", 0): 1}))._memory.transport is None


@pytest.mark.librdkafka
def test_settings_that_batches_do_not_know_mean_records_from_the_beginning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = make_pipeline(
        tmp_path, *BROKERS, ["t"], features={"exactlyOnce": "enabled"},
        transport={"form": "batches"}, producer={"partitioner": "fnv1a"},
    )  # fmt: skip
    slot = Slot(slot_plan(pipeline, {TopicPartition("t", 0): 1}))
    assert isinstance(slot._transport, LibrdkafkaTransport)
    assert "not by whole batches: partitioner is fnv1a" in caplog.text
