"""Reads the commands that `k2k acls` prints, as `kafka-acls.sh` would, into what an admin client grants."""

from __future__ import annotations

import argparse
import itertools
import re
import shlex

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

_RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kafka-acls.sh", allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--command-config")
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--allow-principal", required=True)
    parser.add_argument("--operation", action="append", required=True)
    for resource in _RESOURCES:
        parser.add_argument(f"--{resource.replace('_', '-')}", action="append", default=[])
    parser.add_argument("--resource-pattern-type", choices=["literal", "prefixed"], default="literal")
    return parser


def granted(text: str) -> dict[str, list[AclBinding]]:
    """The ACLs of all commands in a text, by the bootstrap address that they go to."""
    found: dict[str, list[AclBinding]] = {}
    for line in text.splitlines():
        program, *arguments = shlex.split(line, comments=True) or [""]
        if not program:
            continue
        assert program == "kafka-acls.sh"
        given = _parser().parse_args(arguments)
        pattern = ResourcePatternType[given.resource_pattern_type.upper()]
        for (name, kind), operation in itertools.product(_RESOURCES.items(), given.operation):
            for resource in getattr(given, name):
                acl = AclBinding(
                    kind, resource, pattern, given.allow_principal, "*", _operation(operation), AclPermissionType.ALLOW
                )
                found.setdefault(given.bootstrap_server, []).append(acl)
    return found


def _operation(name: str) -> AclOperation:
    return AclOperation[re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()]
