"""`make setup` installs the versions in `constraints.txt` everywhere."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINNED = {
    canonicalize_name(name): version
    for name, version in (line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines())
}
EXTRAS = PROJECT["optional-dependencies"].values()


@pytest.mark.parametrize("asked", [*PROJECT["dependencies"], *(asked for extra in EXTRAS for asked in extra)])
def test_each_dependency_is_pinned_to_a_version_that_the_project_allows(asked: str) -> None:
    requirement = Requirement(asked)
    assert requirement.specifier.contains(PINNED[canonicalize_name(requirement.name)])
