from __future__ import annotations

import pytest

from k2k_assets.registry.schemas import SubjectVersion
from k2k_assets.registry.subjects import best_place, is_of_other_topic, target_subject


@pytest.mark.parametrize(
    ("subject", "target_topic", "on_target"),
    [
        ("orders-value", "copy.orders", "copy.orders-value"),
        ("orders-value", "orders.copy", "orders.copy-value"),
        ("orders-shop.Order", "copy.orders", "copy.orders-shop.Order"),
        ("orders-shop.Order", "orders-copy", "orders-copy-shop.Order"),
        ("shop.Order", "copy.orders", "shop.Order"),
        ("payments-value", "copy.orders", "copy.orders-value"),
        ("payments-value", "orders.copy", "orders.copy-value"),
    ],
)
def test_subjects_on_the_target(subject: str, target_topic: str, on_target: str) -> None:
    assert target_subject(SubjectVersion(subject, 1), "orders", target_topic, "value") == on_target


def test_a_schema_without_a_subject_gets_that_of_its_topic() -> None:
    assert target_subject(None, "orders", "copy.orders", "key") == "copy.orders-key"


def test_the_topics_own_subject_goes_before_others() -> None:
    own, record = SubjectVersion("orders-value", 3), SubjectVersion("orders-shop.Order", 1)
    shared, foreign = SubjectVersion("shop.Order", 1), SubjectVersion("a-value", 1)
    places = [foreign, shared, record, own]
    best = []
    while places:
        at = best_place(places, "orders", "value")
        assert at is not None
        best.append(at)
        places.remove(at)
    assert best == [own, record, shared, foreign]
    assert best_place([], "orders", "value") is None


def test_of_a_value_that_has_a_schema_of_keys_too_the_records_own_subject_counts() -> None:
    of_keys, shared, foreign = (SubjectVersion(name, 1) for name in ("orders-key", "shop.Order", "a-value"))
    assert best_place([of_keys, shared, foreign], "orders", "value") == shared
    assert best_place([of_keys, foreign], "orders", "value") == of_keys


def test_a_topic_whose_name_begins_with_anothers_is_another_one() -> None:
    assert is_of_other_topic("orders-eu-value", "orders")
    assert target_subject(SubjectVersion("orders-eu-value", 1), "orders", "copy", "value") == "copy-value"
    assert not is_of_other_topic("orders-value", "orders")
    assert not is_of_other_topic("orders-key", "orders")
