"""`k2k migrate`: the same pipeline in today's spellings, with its comments and variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2k_assets.core.errors import PipelineFileError
from k2k_assets.pipeline.parsing.migration import migrated
from k2k_assets.pipeline.parsing.problems import DocumentError
from k2k_assets_tests.pipeline.files import TUTORIAL, load_text
from k2k_assets_tests.pipeline.parsing.test_old_spellings import OF_0_1

COMMENTED = """\
# Copies orders.
name: "demo" # of the team
features:
  optimizeCommitPartition: enabled # one partition
coordination:
  kafka:
    commit:
      group: "progress" # required
      topic: ${env:string:COMMIT_TOPIC_WITH_A_NAME_THAT_IS_LONGER_THAN_A_MESSAGE_WOULD_SHOW_OF_IT} # ours
source:
  kafka:
    consumer: { "group.id": ${GROUP}, "sasl.password": '${file:/run/secrets/it s}' }
    # where it is
    connection:
      servers: "src:9092" # two sites
target:
  kafka:
    connection:
      servers: $${not-a-variable}
replication:
  - source:
      topic: # those of the shop
        - "a"
  - sink: { topic: source, partition: source }
"""


def test_comments_quotes_variables_and_indentation_stay() -> None:
    assert (
        migrated(COMMENTED, "f.yaml").text
        == """\
# Copies orders.
name: "demo" # of the team
features:
  optimizeOffsetCommitPartition: enabled # one partition
coordination:
  commit:
    topic: ${env:string:COMMIT_TOPIC_WITH_A_NAME_THAT_IS_LONGER_THAN_A_MESSAGE_WOULD_SHOW_OF_IT}   # ours
source:
  kafka:
    common:
      bootstrap.servers: "src:9092" # two sites
      sasl.password: '${file:/run/secrets/it s}'
    consumer: {"group.id": "progress"}
target:
  kafka:
    common:
      bootstrap.servers: $${not-a-variable}
replication:
  - source:
      topic: # those of the shop
        - "a"
  - sink: {topic: source, partition: source}
"""
    )


@pytest.mark.parametrize(
    "text", [OF_0_1, TUTORIAL + "coordination: { kafka: { commit: { group: g, batchSize: 5 } } }\n"]
)
def test_the_new_file_means_the_same_and_has_no_old_spelling(tmp_path: Path, text: str) -> None:
    found = migrated(text, "f.yaml")
    before, after = load_text(tmp_path, text), load_text(tmp_path, found.text)
    assert after.model_dump() == before.model_dump()
    assert (after.group, after.code_version) == (before.group, before.code_version)
    assert after.warnings == ()
    assert len(found.changes) == len(before.warnings)
    assert migrated(found.text, "f.yaml").text == found.text


def test_a_file_of_today_is_printed_as_it_is() -> None:
    found = migrated(TUTORIAL, "f.yaml")
    assert (found.text, found.changes) == (TUTORIAL, ())


def test_which_name_the_progress_has_is_said() -> None:
    (told,) = [line for line in migrated(OF_0_1, "f.yaml").changes if "names the progress" in line]
    assert "write 'demo.progress' as source.kafka.consumer.\"group.id\", instead of 'demo.consumer'" in told


def test_a_section_that_two_places_share_is_changed_in_both(tmp_path: Path) -> None:
    text = TUTORIAL.replace('common:   { "bootstrap.servers": "src:9092" }', 'connection: &c { servers: "one:1" }')
    text = text.replace('common:   { "bootstrap.servers": "tgt:9092" }', "connection: *c")
    pipeline = load_text(tmp_path, migrated(text, "f.yaml").text)
    servers = [pipeline.client_properties(side, "admin")["bootstrap.servers"] for side in ("source", "target")]
    assert (servers, pipeline.warnings) == (["one:1", "one:1"], ())


def test_what_is_taken_over_by_a_merge_key_is_refused_with_its_place() -> None:
    text = "x: &x { optimizeCommitPartition: enabled }\n" + TUTORIAL.replace("features:", "features:\n  <<: *x")
    with pytest.raises(PipelineFileError, match=r"f.yaml:1:9: features.optimizeCommitPartition: it comes from"):
        migrated(text, "f.yaml")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("a: [", DocumentError, "f.yaml:2:1: not valid YAML"),
        ("a: ${X", DocumentError, "f.yaml:1:4: a variable is opened by"),
        ("coordination: { kafka: { comit: 1 } }", PipelineFileError, "coordination.kafka.comit: unknown key"),
    ],
)
def test_what_cannot_be_understood_is_refused_with_its_place(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=r".") as caught:
        migrated(text, "f.yaml")
    assert message in str(caught.value)
