"""How many cores this process may use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from k2k_assets.core.cores import usable_cores

CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("own", "quotas", "most"),
    [
        ("0::/\n", {"": "150000 100000"}, 2),
        ("0::/\n", {"": "50000 100000"}, 1),
        ("0::/\n", {"": "max 100000"}, CORES),
        ("0::/\n", {}, CORES),
        ("0::/k2k.slice/k2k.service\n", {"k2k.slice/k2k.service": "max 100000", "k2k.slice": "100000 100000"}, 1),
        ("0::/k2k.slice/k2k.service\n", {"k2k.slice/k2k.service": "100000 100000"}, 1),
        ("0::/gone\n", {"": "100000 100000"}, 1),
        ("12:cpu:/docker\n", {}, CORES),
        ("0::/\n", {"": "what no kernel says"}, CORES),
    ],
)
def test_the_quota_of_a_container_or_a_service_counts(
    tmp_path: Path, own: str, quotas: dict[str, str], most: int
) -> None:
    """Where no such file is, as in the outermost group, there is no quota."""
    file, groups = tmp_path / "own", tmp_path / "groups"
    file.write_text(own)
    for folder, quota in quotas.items():
        (groups / folder).mkdir(parents=True, exist_ok=True)
        (groups / folder / "cpu.max").write_text(f"{quota}\n")
    assert usable_cores(groups, file) == min(most, CORES)


@pytest.mark.processes
def test_the_affinity_of_the_process_counts() -> None:
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); import k2k_assets.core.cores as c; "
    told = subprocess.run([sys.executable, "-c", code + "print(c.usable_cores())"], capture_output=True, check=True)
    assert told.stdout.split() == [b"1"]
