"""Dagster instances with our settings: on SQLite, and on a real PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from k2k_assets import orchestration
from k2k_assets_tests.support.brokers.kafka import unique
from k2k_assets_tests.support.dagster.history import History
from k2k_assets_tests.support.services import postgres

SHIPPED = Path(orchestration.__file__).parent


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[dict[str, str]]:
    """The variables of a server that runs."""
    programs = postgres.binaries()
    if programs is None:
        pytest.skip("PostgreSQL's programs are not installed (on Debian: apt-get install postgresql)")
    with postgres.postgres(programs) as variables:
        yield variables


@pytest.fixture
def postgres_home(postgres_server: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of Dagster with the shipped settings, on a database of its own."""
    database = unique("dagster").replace("-", "_")
    variables = {**postgres_server, "DAGSTER_POSTGRES_DB": database}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    programs = postgres.binaries()
    assert programs is not None
    where = ["-h", variables["DAGSTER_POSTGRES_HOST"], "-p", variables["DAGSTER_POSTGRES_PORT"]]
    subprocess.run(
        [programs / "createdb", *where, "-U", variables["DAGSTER_POSTGRES_USER"], database],
        env={**os.environ, "PGPASSWORD": variables["DAGSTER_POSTGRES_PASSWORD"]},
        check=True,
        timeout=60,
    )
    return _home(tmp_path, "dagster-postgres.yaml")


@pytest.fixture
def sqlite_home() -> Iterator[Path]:
    """Likewise, on SQLite; in memory where there is a folder for that, since each event waits for the disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="k2k-dagster-", dir=memory if memory.is_dir() else None) as folder:
        yield _home(Path(folder), "dagster.yaml")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def history(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[History]:
    """A pipeline and its history on an instance with the shipped settings, with each storage."""
    monkeypatch.setenv("K2K_HOME", str(tmp_path / "home"))
    home: Path = request.getfixturevalue(f"{request.param}_home")
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield History(instance, tmp_path / "pipelines")


def _home(folder: Path, settings: str) -> Path:
    home = folder / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text((SHIPPED / settings).read_text())
    return home
