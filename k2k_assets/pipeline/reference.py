"""Prints the reference page of the pipeline file from the models: `python -m k2k_assets.pipeline.reference`.

docs/pipeline-file.md is its output, and a test compares the two.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterable, Iterator
from datetime import timedelta
from types import UnionType
from typing import Literal, Union

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from k2k_assets.pipeline.clients import guarantees
from k2k_assets.pipeline.clients.java_properties import RULES, Between, Impossible, NoEffect, Renamed
from k2k_assets.pipeline.model import Pipeline
from k2k_assets.pipeline.parsing import known_keys, old_spellings
from k2k_assets.pipeline.parsing.document import MAX_BYTES, MAX_DEPTH, MAX_NODES
from k2k_assets.pipeline.parsing.problems import format_path
from k2k_assets.pipeline.parsing.schema import section_of
from k2k_assets.pipeline.parsing.substitution import MAX_VARIABLES
from k2k_assets.pipeline.parsing.variables import MAX_VALUE_BYTES
from k2k_assets.pipeline.sections.routing import SinkTopic
from k2k_assets.pipeline.sections.tracing import TracingFlags
from k2k_assets.pipeline.sections.values import format_duration

_INTRO = f"""# The pipeline file

A pipeline is one YAML document in K2K's language, in one file or several: `-f base.yaml,override.yaml`, or `-f
base.yaml -f override.yaml` (for `k2k-tool`, each `-f` is a pipeline of its own). Maps are merged deeply; the later file
replaces lists and all other values; `key: null` removes a value. Unknown keys are refused with file, line, column and
the nearest known key. One message lists all faults. Example files are in `examples/`.

Editors complete and check the keys with the JSON Schema of the file, `docs/pipeline.schema.json`, which `k2k schema`
prints. Write `# yaml-language-server: $schema=pipeline.schema.json` into the first line, or the schema's address.

Files of older releases of K2K work: see [Other keys of K2K](#other-keys-of-k2k).

How to write values:

- Flags are the words `enabled` and `disabled`, never booleans.
- A duration is a whole number, a space and a unit: `750 milliseconds`, `5 seconds`, `2 minutes`, `1 hour`.
- Client properties are flat, with their dots: `"bootstrap.servers": "localhost:9092"`.
- Plain values follow YAML 1.2: only `true` and `false` are booleans. Anchors, aliases and `<<` work.
- Limits: {MAX_BYTES} bytes a file, {MAX_DEPTH} levels, {MAX_NODES} values.
- `${{loader:mapper(s):NAME}}` stands for a value from the environment or from a file: see [Variables](#variables).

This page is generated from the models: `python -m k2k_assets.pipeline.reference > docs/pipeline-file.md`.
"""

_STAGES = """`replication` is a list of stages with one key each: a source, then its sink. Several pairs are possible:

```yaml
replication:
  - source: { topic: "orders\\\\..*" }
  - sink: { topic: { prefix: "copy." }, partition: source }
  - source: { topic: [payments, refunds] }
  - sink: { topic: { static: "money" }, partition: producer }
```

A topic that two pairs select is not copied, and a warning names it and both pairs; if one of them lists it, the file
is refused. An expression that matches no topic is a warning too, as long as another pair has topics. Each pair has its
own `partition` and `start`. Where one sink has `partition: producer`, foreign writers are found in no topic of the
pipeline.
"""

_VARIABLES = """## Variables

`${loader:mapper(s):NAME}` is replaced in memory when the file is read; the file stays as it is. Loader and mappers are
optional: `${KAFKA_PASSWORD}`, `${file:/run/secrets/kafka}`, `${file:base64:/run/secrets/kafka}`.

| loader | where the value comes from |
| --- | --- |
| `env` (default) | the environment of the process |
| `file` | the file with this absolute path; one line break at its end is removed |

| mapper | what it does, from left to right |
| --- | --- |
| `base64` | decodes base 64 |
| `number` | converts it to a number; anything else is refused |
| `string` | makes it a text; this is the default |
| `raw` | inserts it into the file as YAML; not for secrets |

- A variable only fills in a part of one value, with or without quotes. It cannot end the quotes or add keys; only `raw`
  can.
- Variables are possible in values; in keys only with `raw`.
- A variable without a value is refused by name. It may be missing in a comment, in a section without effect such as
  `license`, and where a later file replaces the value.
- `$${` is a plain `${`. A `${` that is not closed on its line is refused, and also one that takes the closing brace of
  something else (`{ a: ${NAME, b: 1 }`). `-g disabled` leaves all variables as they are.
- No message about a fault in the file shows the value of a variable.
- Limits: a file of {MAX_VALUE_BYTES} bytes, {MAX_VALUE_BYTES} characters in all values, {MAX_VARIABLES} variables.
""".replace("{MAX_VALUE_BYTES}", str(MAX_VALUE_BYTES)).replace("{MAX_VARIABLES}", str(MAX_VARIABLES))

_TLS = """### TLS and SASL

| Java | librdkafka |
| --- | --- |
| `ssl.truststore.location`, PEM | `ssl.ca.location`; JKS and PKCS12 are refused with the command that converts them |
| `ssl.truststore.certificates` | `ssl.ca.pem` |
| `ssl.keystore.location`, PEM | `ssl.certificate.location` and `ssl.key.location` |
| `ssl.keystore.location` and `.password`, PKCS12 | the same names; JKS is refused with the command that converts it |
| `ssl.keystore.certificate.chain`, `ssl.keystore.key` | `ssl.certificate.pem`, `ssl.key.pem` |
| `ssl.key.password` | the same name |
| `ssl.endpoint.identification.algorithm` | the same name; an empty text becomes `none` |
| `ssl.cipher.suites` | the same name, with OpenSSL's names; Java's are refused |
| `sasl.jaas.config`, PLAIN and SCRAM | `sasl.username`, `sasl.password` |
| `clientId`, `clientSecret`, `scope` of it, OAUTHBEARER | `sasl.oauthbearer.client.id`, `.client.secret`, `.scope` |
| `extension_NAME` of it | `sasl.oauthbearer.extensions` |
| `unsecuredLogin...` of it | `enable.sasl.oauthbearer.unsecure.jwt`, `sasl.oauthbearer.config`: unsigned, for tests |
| `sasl.oauthbearer.token.endpoint.url` | the same name, and `sasl.oauthbearer.method: oidc` unless the file names one |
| `sasl.oauthbearer.jwt.retriever.class` | the grant type, of Kafka's own classes; `FileJwtRetriever` is refused |
| `sasl.login.callback.handler.class` | nothing, of Kafka's own for OAUTHBEARER; others are refused |
| `sasl.mechanism: AWS_MSK_IAM`, `IAMLoginModule` | refused: a password (SCRAM) or a client certificate does it |
| `Krb5LoginModule` | refused: `sasl.kerberos.*` do it, where the client was built with Kerberos |
| `sasl.kerberos.kinit.cmd` | the same name where it is a whole command; Java's bare path has no effect |

Without `ssl.*store.type` the file's extension decides (`.pem`, `.crt`, `.cer`, `.cert`: PEM; `.p12`, `.pfx`,
`.pkcs12`: PKCS12). For any other extension it is Java's default, JKS.
"""

Row = tuple[str, ...]


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join([_INTRO, _VARIABLES, *_sections(), *_other_keys(), *_clients()]).rstrip() + "\n"


def keys() -> Iterator[str]:
    """All keys that have a row of the page, in its order: those of the models, those without effect, old spellings."""
    rows = [_row(str(field.alias), field) for field in _plain().values()]
    for field in Pipeline.model_fields.values():
        if section := section_of(field.annotation):
            rows += _rows(section, f"{field.alias}{_item(field.annotation)}")
    yield from (key.replace("`", "") for key, *_ in (*rows, *_without_effect(), *_older_spellings()))


def _plain() -> dict[str, FieldInfo]:
    """The keys at the top that are no sections."""
    return {name: f for name, f in Pipeline.model_fields.items() if section_of(f.annotation) is None}


def _sections() -> Iterator[str]:
    yield "## Top level\n"
    yield table(("key", "value", "default", "meaning"), [_row(str(f.alias), f) for f in _plain().values()])
    for name, field in Pipeline.model_fields.items():
        section = section_of(field.annotation)
        if section is None:
            continue
        yield f"## `{field.alias}`\n"
        yield f"{field.description}\n"
        if name == "replication":
            yield _STAGES
        prefix = f"{field.alias}{_item(field.annotation)}"
        yield table(("key", "value", "default", "meaning"), _rows(section, prefix))


def _rows(model: type[BaseModel], prefix: str) -> Iterator[Row]:
    for field in model.model_fields.values():
        path = f"{prefix}.{field.alias}{_item(field.annotation)}"
        section = section_of(field.annotation)
        if section is None or section in (SinkTopic, TracingFlags):
            yield _row(path, field)
        if section is not None:
            yield from _rows(section, path)


def _item(annotation: object) -> str:
    """`[]` for a key with a list of sections."""
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    is_list = typing.get_origin(annotation) is tuple and section_of(annotation) is not None
    return "[]" if is_list else ""


def _row(path: str, field: FieldInfo) -> Row:
    return f"`{path}`", _kind(field.annotation), _default(field), field.description or ""


def _kind(annotation: object) -> str:
    """An annotation as a user calls it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, UnionType):
        kinds = dict.fromkeys(_kind(argument) for argument in arguments if argument is not type(None))
        return " or ".join(kinds)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is typing.Annotated:
        return _kind(arguments[0])
    if origin is tuple:
        return "map" if typing.get_origin(arguments[0]) is tuple else "list"
    if origin is dict:
        return "map"
    if annotation is SinkTopic:
        return "`source` or map"
    if annotation is TracingFlags:
        return "`enabled`, `disabled` or map"
    names = {bool: "`enabled` or `disabled`", timedelta: "duration", int: "whole number", str: "text"}
    return names[typing.cast(type, annotation)]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or value in ("", {}, ()):
        return ""
    if isinstance(value, bool):
        return f"`{'enabled' if value else 'disabled'}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    if isinstance(value, TracingFlags):
        return "`disabled`"
    return f"`{format_duration(value) if isinstance(value, timedelta) else value}`"


def _other_keys() -> Iterator[str]:
    yield "## Other keys of K2K\n"
    yield "Accepted with any value; one line at the start names them:\n"
    yield table(("key", "why"), _without_effect())
    yield (
        "Spellings of older releases of K2K are accepted with a warning that shows today's; `k2k migrate -f FILE` "
        "prints the file with today's spellings. A file of K2K 0.1 has no `common`: there the connection settings "
        "(`security.*`, `ssl.*`, `sasl.*`) of the source's `consumer` and the target's `producer` apply to all clients "
        "of their side, in each of several files if one of them is of K2K 0.1.\n"
    )
    yield table(("older", "today"), _older_spellings())


def _without_effect() -> Iterator[Row]:
    yield from ((f"`{format_path(path)}`", why) for path, why in known_keys.IGNORED.items())


def _older_spellings() -> Iterator[Row]:
    for old, new in old_spellings.MOVED.items():
        yield f"`{format_path(old)}`", f"`{format_path(new)}`"
    progress = (
        '`source.kafka.consumer."group.id"`: it names the progress, and replaces any other `group.id` of the same file'
    )
    yield f"`{format_path(old_spellings.COMMIT_GROUP)}`", progress
    yield "`replication[].sink.topic.staticMapping`, a list of maps", "one map"
    for old, why in old_spellings.WITHOUT_EFFECT.items():
        yield f"`{format_path(old)}`", f"without effect: {why}"


def _clients() -> Iterator[str]:
    yield "## Client properties\n"
    yield (
        "`source.kafka.*` and `target.kafka.*` take the names of Kafka's Java clients and librdkafka's own. A "
        "name that both have has Java's meaning. A warning at the start names properties without effect; a property "
        "that neither library knows is refused. A client ignores properties in `common` that are for another kind of "
        "client.\n"
    )
    renamed = {key: rule for key, rule in RULES.items() if isinstance(rule, Renamed)}
    yield table(
        ("Java", "librdkafka", "limits and notes"),
        [(f"`{key}`", f"`{rule.to}`", _note(rule)) for key, rule in sorted(renamed.items())],
    )
    yield (
        "`compression.gzip.level`, `compression.lz4.level` and `compression.zstd.level` become "
        "`compression.level` when they are for the `compression.type` in use. `partitioner.ignore.keys: true` becomes "
        "`partitioner=random`. Without any of them the producer hashes keys as Java does (`murmur2_random`). A "
        "producer's `transaction.timeout.ms` (default "
        f"{format_duration(guarantees.DEFAULT_TRANSACTION_TIMEOUT)}) limits its `request.timeout.ms`. Under "
        "exactly-once the engine sets the producer's `retry.backoff.ms`. It always sets the fetch waits of "
        "`target.kafka.consumer`.\n"
    )
    yield _TLS
    yield "### Settings that the guarantees need\n"
    yield (
        "The engine sets them when they are absent. Under exactly-once a contrary value is refused. At-least-once "
        "copies all the same, and a warning names it.\n"
    )
    rows = [(f"target producer `{key}`", need.needed) for key, need in guarantees.PRODUCER.items()]
    rows += [(f"source and target consumer `{key}`", need.needed) for key, need in guarantees.CONSUMER.items()]
    yield table(("setting", "needed"), rows)
    yield (
        "At-least-once accepts any `isolation.level` of the source consumer. With `read_uncommitted`, open "
        "transactions are copied too, and the high watermark is the end of the log for lag, `--once` and `latest`. "
        "Exactly-once has two more rules. `coordination.commit.syncTimeout` must be longer than the producer's "
        f"`transaction.timeout.ms` plus {format_duration(guarantees.SYNC_MARGIN)}. `coordination.commit.batchTimeout`, "
        "if the file has it, must be shorter than `transaction.timeout.ms`.\n"
    )
    yield "### Without effect\n"
    yield table(("property", "why"), _by_reason(NoEffect))
    yield "### Refused\n"
    yield table(("property", "why"), _by_reason(Impossible))


def _note(rule: Renamed) -> str:
    limits = f"{rule.convert.least} to {rule.convert.most}" if isinstance(rule.convert, Between) else ""
    return "; ".join(filter(None, (limits, rule.note)))


def _by_reason(kind: type[NoEffect] | type[Impossible]) -> list[Row]:
    reasons: dict[str, list[str]] = {}
    for key, rule in RULES.items():
        if isinstance(rule, kind):
            reasons.setdefault(rule.reason, []).append(f"`{key}`")
    return [(", ".join(keys), reason) for reason, keys in reasons.items()]


def table(head: Row, rows: Iterable[Row]) -> str:
    """A table in Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
