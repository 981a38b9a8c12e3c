"""The pipeline file that replicates the sandbox's sample topics, ready to run."""

from __future__ import annotations

from pathlib import Path

from k2k_assets.core.errors import K2KError
from k2k_assets.sandbox.broker import Broker
from k2k_assets.sandbox.kafka_sandbox import KafkaSandbox
from k2k_assets.sandbox.principals import REPLICATOR
from k2k_assets.sandbox.registry import SandboxRegistry

_FIRST_LINE = "# Written by the sandbox: the addresses change, so the next start writes it again."

_TEXT = """{first_line}
name: {name}
features:
  exactlyOnce: enabled
  headerReplication: enabled
  offsetMapping: enabled
  autoCreateTopics: enabled
  autoCreateControlTopics: enabled
{schema_mapping}source:
  kafka:
    common:
      "bootstrap.servers": "{source.servers}"
{source_access}    consumer:
      "group.id": "k2k.{name}"
{source_registry}target:
  kafka:
    common:
      "bootstrap.servers": "{target.servers}"
{target_access}{target_registry}{schema_rules}replication:
  - source:
      topic: "{topics}"
  - sink:
      topic: source
      partition: source
"""

_ACCESS = """\
      "security.protocol": SASL_SSL
      "sasl.mechanism": SCRAM-SHA-512
      "sasl.username": {user}
      "sasl.password": "${{file:{password_file}}}"
      "ssl.truststore.type": PEM
      "ssl.truststore.location": "{authority_file}"
"""


_REGISTRY = """\
  registry:
    config:
      "schema.registry.url": "{url}"
"""


# Some of its bytes begin as if a schema registry's serializer had written them.
_SCHEMA_RULES = """\
schemaMapping:
  topics:
    - pattern: "demo\\\\.oddities"
      key: disabled
      value: disabled
    - pattern: ".*"
      key: disabled
      value: enabled
"""


def pipeline_text(sandbox: KafkaSandbox, name: str = "demo", topics: str = r"demo\..*") -> str:
    """The YAML of a pipeline from the sandbox's source to its target.

    Args:
        sandbox: A started one.
        name: The pipeline's name, also the end of its `group.id`.
        topics: The regular expression that selects topics.
    """
    source_registry, target_registry = map(_registry, sandbox.registries) if sandbox.registries else ("", "")
    return _TEXT.format(
        schema_mapping="  schemaMapping: enabled\n" if sandbox.registries else "",
        schema_rules=_SCHEMA_RULES if sandbox.registries else "",
        source_registry=source_registry,
        target_registry=target_registry,
        first_line=_FIRST_LINE,
        name=name,
        source=sandbox.source,
        source_access=_access(sandbox.source) if sandbox.secure else "",
        target=sandbox.target,
        target_access=_access(sandbox.target) if sandbox.secure else "",
        topics=topics.replace("\\", "\\\\"),
    )


def _registry(registry: SandboxRegistry) -> str:
    return _REGISTRY.format(url=registry.url)


def _access(broker: Broker) -> str:
    """How the pipeline's user comes in; the password stays in its file."""
    security = broker.security
    return _ACCESS.format(
        user=REPLICATOR, password_file=security.password_file(REPLICATOR), authority_file=security.authority_file
    )


def write_pipeline_file(path: Path, text: str) -> None:
    """Writes the file; one that this function did not write is left alone.

    Raises:
        K2KError: There is such a file, or it cannot be written.
    """
    try:
        if path.exists() and not path.read_text().startswith(_FIRST_LINE):
            raise K2KError(f"{path} is a file of yours: it is not overwritten. Name another with --pipeline-file.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise K2KError(f"Cannot write the pipeline file {path}: {error.strerror}.") from None
