"""Which rights are copied to the target's topics, without clusters."""

from __future__ import annotations

import pytest

from k2k_assets.kafka.acls import AclOperationName, TopicAcl
from k2k_assets.topics.acls import missing_acls

ROUTES = {"copy.orders": ["orders"], "copy.all": ["a", "b"]}


def acl(
    user: str,
    operation: AclOperationName,
    name: str = "orders",
    host: str = "*",
    *,
    deny: bool = False,
    prefixed: bool = False,
) -> TopicAcl:
    return TopicAcl(name, f"User:{user}", operation, host, deny, prefixed)


def missing(source: list[TopicAcl], target: list[TopicAcl] | None = None, *ours: str) -> list[str]:
    return [str(each) for each in missing_acls(ROUTES, source, target or [], ours)]


@pytest.mark.parametrize("operation", ["WRITE", "CREATE", "DELETE", "ALTER", "ALTER_CONFIGS"])
def test_who_writes_on_the_source_gets_no_right_on_the_copy(operation: AclOperationName) -> None:
    assert missing([acl("app", operation)]) == []
    assert missing([acl("app", operation, deny=True)]) == []


def test_who_reads_may_read_the_copy_and_nothing_more() -> None:
    assert missing([acl("a", "READ"), acl("b", "ALL"), acl("c", "DESCRIBE_CONFIGS", host="10.0.0.1")]) == [
        "copy.orders: User:a may READ",
        "copy.orders: User:b may READ",
        "copy.orders: User:c may DESCRIBE_CONFIGS from 10.0.0.1",
    ]


def test_rights_by_prefix_and_on_all_topics_become_rights_on_the_copy_alone() -> None:
    source = [acl("a", "READ", "ord", prefixed=True), acl("b", "READ", "*"), acl("c", "READ", "pay", prefixed=True)]
    assert missing(source) == [
        "copy.all: User:b may READ",
        "copy.orders: User:a may READ",
        "copy.orders: User:b may READ",
    ]


def test_readers_of_any_source_topic_may_read_what_they_go_into() -> None:
    assert missing([acl("a", "READ", "a"), acl("b", "READ", "b")]) == [
        "copy.all: User:a may READ",
        "copy.all: User:b may READ",
    ]


def test_whom_the_source_shuts_out_the_copy_shuts_out() -> None:
    assert missing([acl("*", "READ"), acl("eve", "ALL", deny=True)]) == [
        "copy.orders: User:* may READ",
        "copy.orders: User:eve may not READ",
    ]
    source, target = [acl("eve", "READ", deny=True)], [acl("eve", "READ", "copy.orders")]
    assert missing(source, target) == ["copy.orders: User:eve may not READ"]
    assert missing(source, [acl("eve", "ALL", "copy.", deny=True, prefixed=True)]) == []


@pytest.mark.parametrize(
    "there",
    [
        acl("a", "READ", "copy.orders"),
        acl("a", "ALL", "copy.orders"),
        acl("a", "READ", "copy.", prefixed=True),
        acl("*", "READ", "*"),
    ],
    ids=str,
)
def test_a_right_that_is_there_in_another_form_is_not_missing(there: TopicAcl) -> None:
    source = [acl("a", "READ"), acl("a", "DESCRIBE"), acl("a", "READ", host="10.0.0.1")]
    assert missing(source, [there]) == []
    assert missing(source, [acl("a", "READ", "copy.order")]) == ["copy.orders: User:a may READ"]


def test_describe_is_not_included_in_what_denies_to_write() -> None:
    source = [acl("a", "DESCRIBE"), acl("b", "DESCRIBE")]
    target = [acl("a", "WRITE", "copy.orders"), acl("b", "WRITE", "copy.orders", deny=True)]
    assert missing(source, target) == ["copy.orders: User:b may DESCRIBE"]


def test_the_pipeline_itself_needs_no_right_to_read_its_copies() -> None:
    assert missing([acl("k2k", "READ")], [], "User:k2k") == []
    assert missing([acl("k2k", "READ", deny=True)], [], "User:k2k") == ["copy.orders: User:k2k may not READ"]
