"""A first pipeline file: exactly once, with headers and offset mappings, and with comments."""

from __future__ import annotations

import json

from k2k_assets.pipeline.substitution import escaped

_TEXT = """\
# Copies topics of one Kafka cluster to another, exactly once. It is yours to change.
# {note}
name: {name}

features:
  exactlyOnce: enabled # each record once, in order: records, progress and mappings are one transaction of the target
  headerReplication: enabled # copy the headers of records; they are dropped without it
  offsetMapping: enabled # note which target offset each source offset became: consumer groups can move over
  autoCreateTopics: enabled # create missing topics on the target, with the partitions and settings of the source's
  autoCreateControlTopics: enabled # progress and mappings are kept in topics of the target; create them when missing

source: # only read: no topic, group or offset is written here
  kafka:
    common:
      "bootstrap.servers": {source}
      # A cluster that asks who connects wants lines like these, for the target too. Passwords stay in their own files.
      # "security.protocol": SASL_SSL
      # "sasl.mechanism": SCRAM-SHA-512
      # "sasl.username": replicator
      # "sasl.password": "${{file:/run/secrets/source-password}}"
    consumer:
      "group.id": {group} # names the progress: with another name everything is copied anew. No group is joined.
      # "auto.offset.reset": latest # begin at the end; without this line everything that is there is copied

target:
  kafka:
    common:
      "bootstrap.servers": {target}

replication:
  - source:
      topic: {topics} # a regular expression that matches the whole name, or a list of names: [orders, payments]
  - sink:
      topic: source # the same name on the target; {{ prefix: "copy." }} puts something before it
      partition: source # the same partition
"""


def first_file(name: str, source: str, target: str, topics: str, note: str) -> str:
    """The text of the file.

    Args:
        name: Of the pipeline.
        source: Bootstrap address of the source cluster.
        target: The same of the target cluster.
        topics: A regular expression for whole names.
        note: One line of comment: who wrote it, what to do next.
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
    """In YAML's double quotes, and not taken for a variable."""
    return escaped(json.dumps(text, ensure_ascii=False))
