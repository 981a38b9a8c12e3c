"""A first pipeline file: exactly once, with headers and offset mappings, and with comments."""

from __future__ import annotations

import json

from k2k_assets.pipeline.parsing.substitution import escaped

_TEXT = """\
# Copies topics of one Kafka cluster to another, exactly once. Change it as you like.
# {note}
name: {name}

features:
  exactlyOnce: enabled # each record once, in order: records, progress and mappings are one transaction of the target
  headerReplication: enabled # copy the headers of records; without it they are dropped
  offsetMapping: enabled # record the target offset of each source offset, so that consumer groups can move
  autoCreateTopics: enabled # create missing topics on the target, with the partitions and settings of the source's
  autoCreateControlTopics: enabled # progress and mappings are kept in topics of the target; create them when missing

source: # only read: no topic, group or offset is written here
  kafka:
    common:
      "bootstrap.servers": {source}
      # A cluster with authentication needs lines like these, the target too. Passwords stay in files of their own.
      # "security.protocol": SASL_SSL
      # "sasl.mechanism": SCRAM-SHA-512
      # "sasl.username": replicator
      # "sasl.password": "${{file:/run/secrets/source-password}}"
    consumer:
      "group.id": {group} # names the progress: with another name everything is copied again. No group is joined.
      # "auto.offset.reset": latest # begin at the end; without this line all existing records are copied

target:
  kafka:
    common:
      "bootstrap.servers": {target}

replication:
  - source:
      topic: {topics} # a regular expression that matches the whole name, or a list of names: [orders, payments]
  - sink:
      topic: source # the same name on the target; {{ prefix: "copy." }} adds a prefix
      partition: source # the same partition
"""


def first_file(name: str, source: str, target: str, topics: str, note: str) -> str:
    """The text of the file.

    Args:
        name: Name of the pipeline.
        source: Bootstrap address of the source cluster.
        target: Bootstrap address of the target cluster.
        topics: A regular expression for whole names.
        note: One line of comment: who wrote the file, and what to do next.
    """
    return _TEXT.format(
        note=note,
        name=_quoted(name),
        group=_quoted(f"k2k.{name}"),
        source=_quoted(source),
        target=_quoted(target),
        topics=_quoted(topics),
    )


def _quoted(text: str) -> str:
    """The text in YAML's double quotes, with `${` escaped."""
    return escaped(json.dumps(text, ensure_ascii=False))
