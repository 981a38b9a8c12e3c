"""Fixtures that all tests share: the two real Kafka clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from k2k_assets.sandbox import KafkaSandbox


@pytest.fixture(scope="session")
def clusters() -> Iterator[KafkaSandbox]:
    """A real source and a real target cluster, started once for the whole session.

    A test may kill, stop or freeze a broker: what it leaves down is started again after it.
    """
    with KafkaSandbox() as sandbox:
        yield sandbox


@pytest.fixture(autouse=True)
def _brokers_up_again(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "clusters" in request.fixturenames:
        sandbox: KafkaSandbox = request.getfixturevalue("clusters")
        for broker in (sandbox.source, sandbox.target):
            broker.resume()
            broker.start()
