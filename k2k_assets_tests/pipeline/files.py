"""Pipeline files for tests: the smallest file of the tutorial, and changes to it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from k2k_assets.core.errors import PipelineFileError
from k2k_assets.pipeline import Pipeline, load_pipeline

TUTORIAL = """\
name: "my-pipeline"
license: { acceptEula: true, token: "..." }
features:
  autoCreateControlTopics: enabled
  autoCreateTopics: enabled
source:
  kafka:
    common:   { "bootstrap.servers": "src:9092" }
    consumer: { "group.id": "k2k.my-group" }
target:
  kafka:
    common:   { "bootstrap.servers": "tgt:9092" }
replication:            # a LIST OF STAGES, one key per item, not an object
  - source: { topic: ".*" }
  - sink:   { topic: source, partition: source }
"""
"""K2K's own first example, as its reference prints it."""


def load_text(folder: Path, *texts: str) -> Pipeline:
    """Load one pipeline from texts, each a file `0.yaml`, `1.yaml`, ... of the folder."""
    paths = [folder / f"{position}.yaml" for position in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return load_pipeline(paths)


def refusal(folder: Path, *texts: str) -> str:
    """The message with which the texts are refused, without the folder."""
    try:
        load_text(folder, *texts)
    except PipelineFileError as error:
        return str(error).replace(f"{folder}/", "")
    raise AssertionError("the pipeline was not refused")


def changed(changes: dict[str, Any]) -> str:
    """The tutorial's file with values set: paths of keys joined by `/` to values."""
    document = copy.deepcopy(yaml.safe_load(TUTORIAL))
    for path, value in changes.items():
        section: Any = document
        *parents, last = path.split("/")
        for key in parents:
            section = section[int(key)] if isinstance(section, list) else section.setdefault(key, {})
        section[last] = value
    return yaml.safe_dump(document, sort_keys=False)
