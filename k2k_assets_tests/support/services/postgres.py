"""A PostgreSQL for tests: with a password, on a free port, removed at the end."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from k2k_assets.core.deadline import wait_until
from k2k_assets.sandbox.broker_settings import free_ports

PASSWORD = "never printed"
_USER = "k2k"
_SECONDS = 60.0


def binaries() -> Path | None:
    """The folder of PostgreSQL's programs, which Debian keeps from the path; None where they are not installed."""
    found = shutil.which("initdb")
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return Path(found).resolve().parent if found else next(iter(folders), None)


@contextmanager
def postgres(programs: Path) -> Iterator[dict[str, str]]:
    """Runs a server; yields the variables that the shipped `dagster-postgres.yaml` asks for.

    Args:
        programs: See `binaries`.
    """
    # PostgreSQL refuses to run as root, and its folder has to be its user's own.
    user = "postgres" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="k2k-postgres-") as name:
        folder = Path(name)
        (folder / "password").write_text(PASSWORD)
        for path in (folder, folder / "password"):
            if user:
                shutil.chown(path, user, user)
        data, (port,) = folder / "data", free_ports(1)
        subprocess.run(
            [
                *(str(programs / "initdb"), "-D", str(data), "-U", _USER, "--pwfile", str(folder / "password")),
                *("--auth=password", "--no-sync", "--locale=C.UTF-8"),
            ],
            user=user,
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=_SECONDS,
        )
        server = subprocess.Popen(
            [
                *(str(programs / "postgres"), "-D", str(data), "-h", "127.0.0.1", "-p", str(port), "-k", str(folder)),
                *("-c", "fsync=off"),
            ],
            user=user,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            asked = [str(programs / "pg_isready"), "-h", "127.0.0.1", "-p", str(port)]
            wait_until(
                lambda: subprocess.run(asked, capture_output=True, check=False).returncode == 0, _SECONDS, "PostgreSQL"
            )
            yield {
                "DAGSTER_POSTGRES_HOST": "127.0.0.1",
                "DAGSTER_POSTGRES_PORT": str(port),
                "DAGSTER_POSTGRES_DB": "postgres",
                "DAGSTER_POSTGRES_USER": _USER,
                "DAGSTER_POSTGRES_PASSWORD": PASSWORD,
            }
        finally:
            server.terminate()
            server.wait(_SECONDS)
