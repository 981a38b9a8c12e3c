"""One flow of MirrorMaker 2, `A->B`, as its settings stand: who overrides whom, and what nobody has asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from k2k_assets.conversion.clients import is_of_every_client


@dataclass
class Flow:
    """Reads the settings of a flow, and remembers what was read.

    Attributes:
        source: Alias of the source cluster.
        target: Alias of the target cluster.
        properties: The whole file.
        read: Keys of the file that have a counterpart, or were told of.
    """

    source: str
    target: str
    properties: Mapping[str, str]
    read: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """For people and as the name of the pipeline: `a-to-b`."""
        return f"{self.source}-to-{self.target}"

    @property
    def prefix(self) -> str:
        """Of the keys of this flow."""
        return f"{self.source}->{self.target}."

    def setting(self, *names: str, default: str = "") -> str:
        """A setting of the connectors: that of the flow, else that of all flows.

        Args:
            names: The key, and its older spellings.
            default: MirrorMaker 2's.
        """
        present = [prefix + name for prefix in (self.prefix, "") for name in names if prefix + name in self.properties]
        self.read.update(present)
        return self.properties[present[0]].strip() if present else default

    def listed(self, *names: str, default: str = "") -> list[str]:
        """As `setting`, of a list with commas."""
        return [item.strip() for item in self.setting(*names, default=default).split(",") if item.strip()]

    def enabled(self, name: str, default: bool) -> bool:
        """As `setting`, of a switch."""
        return self.setting(name, default=str(default)).lower() == "true"

    def of_clients(self, alias: str) -> dict[str, str]:
        """What the clients of a cluster have in common, by the file's keys; the last one of a name counts."""
        return {
            key: name
            for prefix in ("", f"{alias}.")
            for key, name in self._below(prefix).items()
            if is_of_every_client(name)
        }

    def below(self, *prefixes: str) -> dict[str, str]:
        """Keys below prefixes, with what is left of them; the last one of a name counts."""
        return {key: name for prefix in prefixes for key, name in self._below(prefix).items()}

    def _below(self, prefix: str) -> dict[str, str]:
        return {key: key.removeprefix(prefix) for key in self.properties if key.startswith(prefix)}
