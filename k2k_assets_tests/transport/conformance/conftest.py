"""The fixtures of the suite: every transport and every source of the factory, and the fake one."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.transport.factory import BATCHES, RECORDS, SOURCES, TRANSPORTS
from k2k_assets_tests.transport.conformance.ends import Ends, FakeEnds, RealEnds

FAKE = "fake"
REAL = [pytest.param(name, id=name.replace(" ", "-"), marks=pytest.mark.integration) for name in TRANSPORTS]
REAL_SOURCES = [pytest.param(name, id=name.replace(" ", "-"), marks=pytest.mark.integration) for name in SOURCES]
MODES = {RECORDS: ("enabled", "disabled"), BATCHES: ("enabled", "disabled")}
IN_EACH_MODE = [
    pytest.param((name, mode), id=f"{name.replace(' ', '-')}-{mode}", marks=pytest.mark.integration)
    for name in TRANSPORTS
    for mode in MODES[name]
]


def _ends(name: str, request: pytest.FixtureRequest, directory: Path, mode: str = "enabled") -> Ends:
    if name == FAKE:
        return FakeEnds()
    return RealEnds(name, request.getfixturevalue("clusters"), directory, mode)


@pytest.fixture(params=[FAKE, *REAL])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Ends:
    """Exactly once."""
    return _ends(request.param, request, tmp_path)


@pytest.fixture(params=[FAKE, *REAL_SOURCES])
def source_ends(request: pytest.FixtureRequest, tmp_path: Path) -> Ends:
    """For each source; what is not about sources is librdkafka's."""
    if request.param == FAKE:
        return FakeEnds()
    return RealEnds(RECORDS, request.getfixturevalue("clusters"), tmp_path, source=request.param)


@pytest.fixture(params=[pytest.param((FAKE, "enabled"), id=FAKE), *IN_EACH_MODE])
def ends_in_each_mode(request: pytest.FixtureRequest, tmp_path: Path) -> Ends:
    """Exactly once and at least once; the fake one only knows transactions."""
    name, mode = request.param
    return _ends(name, request, tmp_path, mode)


@pytest.fixture(params=REAL)
def real_transport(request: pytest.FixtureRequest) -> str:
    """Its name, for what only brokers show."""
    name: str = request.param
    return name


@pytest.fixture(params=REAL_SOURCES)
def real_source(request: pytest.FixtureRequest) -> str:
    """Its name, for what only brokers show."""
    name: str = request.param
    return name
