"""The examples load, and the reference page agrees with the models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from k2k_assets.pipeline import load_pipeline
from k2k_assets.pipeline.reference import page
from k2k_assets_tests.pipeline.files import TUTORIAL, load_text

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def test_there_are_examples() -> None:
    assert {path.name for path in EXAMPLES} >= {"minimal.yaml", "exactly-once.yaml", "prefix.yaml"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_load_without_warnings(path: Path) -> None:
    assert load_pipeline(path).warnings == ()


def test_what_the_examples_do() -> None:
    mapped, prefix = (load_pipeline(ROOT / "examples" / name) for name in ("exactly-once.yaml", "prefix.yaml"))
    assert mapped.features.exactly_once
    assert mapped.routing.target_topic("orders") == "shop.orders.v2"
    assert mapped.routing.target_topic("payments") == "shop.unsorted"
    assert mapped.client_properties("source", "admin")["sasl.username"] == "replicator"
    assert prefix.routing.target_topic("team-a.x") == "backup.team-a.x"
    assert [prefix.selection.matches(f"team-a.{name}") for name in ("x", "internal.x")] == [True, False]


def test_the_reference_page_is_up_to_date() -> None:
    written = (ROOT / "docs" / "pipeline-file.md").read_text(encoding="utf-8")
    assert written == page(), "run: python -m k2k_assets.pipeline.reference > docs/pipeline-file.md"


def test_the_fragments_of_the_security_page_are_good_yaml_of_ours(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    fragments = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    jaas = "a.ScramLoginModule required username=u password=p;"
    assert fragments
    for fragment in fragments:
        filled = re.sub(r"\$\{env:string:SASL_JAAS_CONFIG\}", f'"{jaas}"', fragment)
        assert load_text(tmp_path, TUTORIAL, re.sub(r"\$\{\S+\}", "value", filled)).warnings == ()
