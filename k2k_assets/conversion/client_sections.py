"""Converts the client properties of a flow into sections of a pipeline file; reports those that librdkafka lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from k2k_assets.conversion.clients import is_of_every_client
from k2k_assets.conversion.flow import Flow
from k2k_assets.pipeline.clients.client_properties import CLIENTS, ClusterRole, translate
from k2k_assets.pipeline.parsing.substitution import escaped

Sections = dict[str, dict[str, str]]
"""The sections of one cluster: `common`, `consumer`, ..."""

_PROVIDED = re.compile(r"\$\{([^}:]*):(?:([^}:]*):)?([^}:]*)\}")


def source_sections(flow: Flow) -> tuple[Sections, dict[str, str]]:
    """The sections of `source.kafka`, and the keys of the flow without a counterpart, with the reason."""
    alias, prefix = flow.source, flow.prefix
    sections = {
        "common": flow.of_clients(alias),
        # MirrorMaker 2 reads the cluster's keys as `source.consumer.*`, which override `consumer.*` of the flow.
        "consumer": flow.below(f"{prefix}consumer.", f"{alias}.consumer.", f"{prefix}source.consumer."),
        "admin": flow.below(f"{prefix}admin.", f"{alias}.admin.", f"{prefix}source.admin."),
    }
    others = ("poll.timeout.ms", "group.id")  # MirrorMaker 2's own setting, and here the name of the progress
    sections["consumer"] = {key: name for key, name in sections["consumer"].items() if name not in others}
    return _usable("source", flow, sections)


def target_sections(flow: Flow) -> tuple[Sections, dict[str, str]]:
    """The same for `target.kafka`."""
    alias = flow.target
    readers = {key: name for key, name in flow.below(f"{alias}.consumer.").items() if is_of_every_client(name)}
    sections = {
        "common": flow.of_clients(alias),
        "consumer": readers,
        "producer": flow.below(f"{alias}.producer.", f"{flow.prefix}producer.override."),
        "admin": flow.below(f"{alias}.admin.", f"{flow.prefix}target.admin."),
    }
    return _usable("target", flow, sections)


def _usable(role: ClusterRole, flow: Flow, keys: Mapping[str, Mapping[str, str]]) -> tuple[Sections, dict[str, str]]:
    sections: Sections = {}
    told: dict[str, str] = {}
    origin: dict[tuple[str, str], str] = {}
    for section, names in keys.items():
        flow.read.update(names)
        sections[section] = {}
        for key, name in names.items():
            try:
                sections[section][name] = _value(flow, flow.properties[key])
                origin[section, name] = key
            except ValueError as fault:
                told[key] = str(fault)
    for section, name, reason in _remarks(role, sections, "faults"):
        if sections[section].pop(name, None) is not None:
            told[origin[section, name]] = reason
    for section, name, reason in _remarks(role, sections, "warnings"):
        told[origin[section, name]] = f"no effect: {reason}"
    return {section: values for section, values in sections.items() if values}, told


def _remarks(
    role: ClusterRole, sections: Sections, kind: Literal["faults", "warnings"]
) -> Iterator[tuple[str, str, str]]:
    """Section, name and reason of properties that are impossible or have no effect."""
    for cluster, client in CLIENTS:
        if cluster == role:
            given = [(part, sections.get(part, {})) for part in ("common", client)]
            yield from getattr(translate(cluster, client, given, exactly_once=True), kind)


def _value(flow: Flow, value: str) -> str:
    """A value for the pipeline file, with its variables instead of config providers'; the rest is escaped.

    Raises:
        ValueError: A config provider has no counterpart.
    """
    providers = {name.strip() for name in flow.properties.get("config.providers", "").split(",")} - {""}
    parts: list[str] = []
    at = 0
    for match in _PROVIDED.finditer(value):
        if match[1] in providers:
            parts += [escaped(value[at : match.start()]), _variable(flow, *match.groups())]
            at = match.end()
    return "".join([*parts, escaped(value[at:])])


def _variable(flow: Flow, provider: str, path: str | None, name: str) -> str:
    kind = flow.properties.get(f"config.providers.{provider}.class", "").rpartition(".")[2]
    if kind == "EnvVarConfigProvider":
        return f"${{env:{name}}}"
    if kind == "DirectoryConfigProvider":
        return f"${{file:{path}/{name}}}"
    raise ValueError(
        f"the config provider {provider} has no counterpart. Put only the value into a file, and write "
        "${file:/path/of/the/file}, or ${env:NAME}"
    )
