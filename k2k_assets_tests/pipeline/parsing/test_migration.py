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


AS_WRITTEN = """\
x:
  large: 1_000.0
  text: ! 1
  asked: !!str 1
  counted: !!int "5"
  time: 2001-12-14T21:59:43.1234567Z
  day: 2001-99-99
  null: 1
  ~: 2
  octal: 012
  power: 1E5
  yes: True
  empty:
  none: ~
"""


def test_values_stay_as_they_are_written() -> None:
    text = "features: { optimizeCommitPartition: enabled }\n"
    today = "features: {optimizeOffsetCommitPartition: enabled}\n"
    assert migrated(text + AS_WRITTEN, "f.yaml").text == today + AS_WRITTEN


def test_what_another_section_takes_over_by_a_merge_key_is_refused_with_its_place() -> None:
    text = """\
source: { kafka: { connection: { servers: a:1 }, consumer: &c { sasl.username: u } } }
target: { kafka: { producer: { <<: *c } } }
"""
    with pytest.raises(PipelineFileError, match=r'f.yaml:1:65: source.kafka.consumer."sasl.username": another section'):
        migrated(text, "f.yaml")


def test_what_cannot_be_rewritten_with_the_same_meaning_is_refused() -> None:
    text = """\
source: { kafka: { connection: { servers: a:1 }, common: &c { sasl.username: u } } }
target: { kafka: { common: { <<: *c } } }
"""
    with pytest.raises(PipelineFileError, match=r"^f.yaml: `k2k migrate` cannot rewrite this file without a change"):
        migrated(text, "f.yaml")


@pytest.mark.parametrize("null", ["", " ~", " null", " !!null"])
def test_an_empty_section_takes_what_moves_into_it(null: str) -> None:
    text = f"source:\n  kafka:\n    common:{null}\n    connection:\n      servers: a:1\n"
    assert migrated(text, "f.yaml").text == "source:\n  kafka:\n    common:\n      bootstrap.servers: a:1\n"


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('sasl.password: "hunter2"\t# from vault', "5:31"),
        ("sasl.password:\thunter2", "5:21"),
        ("x: { <<: *p, <<: *p } # hunter2", "5:20"),
    ],
)
def test_a_line_that_cannot_be_rewritten_is_told_without_its_text(line: str, place: str) -> None:
    text = f"""\
features: {{ optimizeCommitPartition: enabled, x: &p {{ "a": b }} }}
source:
  kafka:
    consumer:
      {line}
"""
    with pytest.raises(PipelineFileError, match=rf"^f.yaml:{place}: `k2k migrate` cannot rewrite this line") as caught:
        migrated(text, "f.yaml")
    assert "hunter2" not in str(caught.value)


def test_two_anchors_of_one_name_warn_of_no_text(recwarn: pytest.WarningsRecorder) -> None:
    migrated('features: { optimizeCommitPartition: &a enabled, x: &a "hunter2" }\n', "f.yaml")
    assert not recwarn.list


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "source: { kafka: { connection: { servers: a:1 }, common: 5 } }",
            "f.yaml:1:50: source.kafka.common: expect",
        ),
        ("source: { registry: { url: a, config: 7 } }", "f.yaml:1:31: source.registry.config: expected a mapping"),
        ("source: 5\ncoordination: { commit: { group: g } }", "f.yaml:1:1: source: expected a mapping"),
        ("source: { kafka: [1] }\ncoordination: { commit: { group: g } }", "source.kafka: expected a mapping, found a"),
        ("schemaMapping: 5\nsource: { registry: { supportedTypes: [] } }", "schemaMapping: expected a mapping, found"),
    ],
)
def test_a_value_in_the_place_of_a_section_is_refused(text: str, message: str) -> None:
    with pytest.raises(PipelineFileError, match=r".") as caught:
        migrated(text, "f.yaml")
    assert message in str(caught.value)


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
