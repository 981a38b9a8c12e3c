"""The examples load, and the pages of the keys agree with the models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from k2k_assets.pipeline import key_page, load_pipeline
from k2k_assets.pipeline.reference import keys, page
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


def test_the_page_of_what_becomes_of_each_key_is_up_to_date() -> None:
    written = (ROOT / "docs" / "k2k-keys.md").read_text(encoding="utf-8")
    assert written == key_page.page(), "run: python -m k2k_assets.pipeline.key_page > docs/k2k-keys.md"


def test_each_key_has_a_line_and_each_line_is_of_a_key() -> None:
    assert list(key_page.key_tests()) == list(keys()), "in the order of docs/pipeline-file.md"


def test_each_line_says_what_becomes_of_its_key_and_why_where_it_is_not_as_in_k2k() -> None:
    told = key_page.key_tests()
    assert {key: line.state for key, line in told.items() if line.state not in key_page.STATES} == {}
    assert [key for key, line in told.items() if line.state in ("differs", "no effect") and not line.words] == []


def test_each_key_names_tests_that_are_there_and_know_the_key() -> None:
    """Whether a test fails where its key has no effect is for its author to say; that it sets the key is seen here."""
    faults = [
        f"{key}: {test}"
        for key, line in key_page.key_tests().items()
        for test in line.tests or ("no test",)
        if not _is_test_with(test, re.split(r"[.,]", key.removesuffix(", a list of maps"))[-1])
    ]
    assert faults == []


def _is_test_with(test: str, word: str) -> bool:
    """Whether there is such a test, and the word in its file or in a module of the tests that this imports."""
    name, _, function = test.partition("::")
    file = ROOT / key_page.TESTS / name
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    imported = re.findall(r"^from (k2k_assets_tests\S+) import", text, re.MULTILINE)
    helpers = [ROOT / f"{module.replace('.', '/')}.py" for module in imported]
    texts = [text, *(path.read_text(encoding="utf-8") for path in helpers if path.is_file())]
    return f"\ndef {function}(" in text and any(re.search(rf"\b{word}\b", each) for each in texts)


def test_the_fragments_of_the_security_page_are_good_yaml_of_ours(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    fragments = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    jaas = "a.ScramLoginModule required username=u password=p;"
    assert fragments
    for fragment in fragments:
        filled = re.sub(r"\$\{env:string:SASL_JAAS_CONFIG\}", f'"{jaas}"', fragment)
        assert load_text(tmp_path, TUTORIAL, re.sub(r"\$\{\S+\}", "value", filled)).warnings == ()
