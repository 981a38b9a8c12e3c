"""Pipeline files for tests, loaded by the same loader as users' files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets_tests.support.brokers.kafka import unique
from k2k_assets_tests.support.copies.forms import form_section

Make = Callable[..., Pipeline]
"""A fixture that makes pipelines, each for the clusters of its test."""

NEVER_TIMED_OUT = {"transaction.timeout.ms": 600_000}
"""Producer settings: far longer than any test may take. What a dead slot left open is aborted by whoever comes after
it, or never."""

_AT_LEAST_ONCE = pytest.param("disabled", marks=pytest.mark.slow, id="at least once")
MODES = pytest.mark.parametrize("mode", [pytest.param("enabled", id="exactly once"), _AT_LEAST_ONCE])
"""`features.exactlyOnce` of a test that both delivery modes pass, one of them in `make test-all`."""


def of_small_transactions(batch_size: int) -> dict[str, Any]:
    """Sections of a pipeline that is killed amid many transactions, none of which times out.

    Args:
        batch_size: Most records of a transaction.
    """
    commit = {"batchSize": batch_size, "syncTimeout": "11 minutes"}
    return {"coordination": {"commit": commit}, "producer": NEVER_TIMED_OUT}


def write_pipeline(
    directory: Path,
    source: str,
    target: str,
    topics: str | Sequence[str],
    /,
    sink: str | Mapping[str, Any] = "source",
    partition: str = "source",
    features: Mapping[str, Any] | None = None,
    consumer: Mapping[str, Any] | None = None,
    producer: Mapping[str, Any] | None = None,
    registries: tuple[str, str] | None = None,
    **sections: Any,
) -> Path:
    """Writes a pipeline file with names of its own, which copies in the form that is asked for (`forms.py`).

    Args:
        directory: Where to.
        source: Bootstrap address.
        target: Bootstrap address.
        topics: A pattern, or names.
        sink: `replication[].sink.topic`.
        partition: `replication[].sink.partition`.
        features: Over `autoCreateTopics` and `autoCreateControlTopics` enabled.
        consumer: Properties of the source's consumer, over a `group.id` of its own.
        producer: Properties of the target's producer.
        registries: Addresses of the source's and the target's schema registry, whose ids are mapped.
        sections: Further sections of the file, such as `topicCreation`; control topics that these do not name get
            unique names (the mapping topic if the `offsetMapping` section is not given).

    Returns:
        The file.
    """
    name = unique("pipeline")
    document: dict[str, Any] = {
        "name": name,
        "features": {"autoCreateTopics": "enabled", "autoCreateControlTopics": "enabled", **(features or {})},
        "source": {
            "kafka": {
                "common": {"bootstrap.servers": source},
                "consumer": {"group.id": f"k2k.{name}", **(consumer or {})},
            }
        },
        "target": {
            "kafka": {"common": {"bootstrap.servers": target}, **({"producer": {**producer}} if producer else {})}
        },
        "replication": [
            {"source": {"topic": topics if isinstance(topics, str) else list(topics)}},
            {"sink": {"topic": sink if isinstance(sink, str) else dict(sink), "partition": partition}},
        ],
        "coordination": {"commit": {"topic": f"{name}-commits"}, "assignment": {"topic": f"{name}-claims"}},
        "offsetMapping": {"topic": f"{name}-mappings"},
        **form_section(),
        **sections,
        # A busy broker may show a new topic later than after the usual seven seconds.
        "configuration": {"autoControlTopicCreationMaxAttempts": 160, **sections.get("configuration", {})},
    }
    # The default ones are shared by all tests: who deletes one would take it away from the others.
    document["coordination"] = {
        **document["coordination"],
        **{
            kind: {"topic": f"{name}-{suffix}", **document["coordination"].get(kind, {})}
            for kind, suffix in (("commit", "commits"), ("assignment", "claims"))
        },
    }
    for side, url in zip(("source", "target"), registries or (), strict=False):
        document["features"]["schemaMapping"] = "enabled"
        document[side]["registry"] = {"config": {"schema.registry.url": url}}
    path = directory / f"{name}.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def make_pipeline(directory: Path, source: str, target: str, topics: str | Sequence[str], /, **rest: Any) -> Pipeline:
    """As `write_pipeline`, loaded."""
    return load_pipeline([write_pipeline(directory, source, target, topics, **rest)])


def mapping_pipeline(
    directory: Path, source: str, target: str, topics: str | Sequence[str], mode: str = "enabled", /,
    features: Mapping[str, Any] | None = None, index: str = "index", **rest: Any,
) -> tuple[Path, Pipeline]:  # fmt: skip
    """Writes and loads a pipeline with offset mappings and an index of its own.

    Args:
        directory: Where to.
        source: Bootstrap address.
        target: Bootstrap address.
        topics: A pattern, or names.
        mode: `features.exactlyOnce`.
        features: Further features.
        index: Folder of the index.
        rest: As of `write_pipeline`.
    """
    path = write_pipeline(
        directory, source, target, topics,
        features={"exactlyOnce": mode, "offsetMapping": "enabled", **(features or {})},
        index={"path": str(directory / index)}, **rest,
    )  # fmt: skip
    return path, load_pipeline([path])
