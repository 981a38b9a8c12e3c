"""One flow of MirrorMaker 2, `A->B`: which of its settings override others, and which were never read."""

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
        read: Keys of the file that have a counterpart, or were reported.
    """

    source: str
    target: str
    properties: Mapping[str, str]
    read: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The name of the pipeline: `a-to-b`."""
        return f"{self.source}-to-{self.target}"

    @property
    def prefix(self) -> str:
        """Prefix of the keys of this flow."""
        return f"{self.source}->{self.target}."

    def setting(self, *names: str, default: str = "") -> str:
        """A setting of the connectors: the flow's own, else that of all flows.

        Args:
            names: The key, and its older spellings.
            default: MirrorMaker 2's default.
        """
        present = [prefix + name for prefix in (self.prefix, "") for name in names if prefix + name in self.properties]
        self.read.update(present)
        return self.properties[present[0]].strip() if present else default

    def listed(self, *names: str, default: str = "") -> list[str]:
        """As `setting`, for a list with commas."""
        return [item.strip() for item in self.setting(*names, default=default).split(",") if item.strip()]

    def enabled(self, name: str, default: bool) -> bool:
        """As `setting`, for a boolean."""
        return self.setting(name, default=str(default)).lower() == "true"

    def of_clients(self, alias: str) -> dict[str, str]:
        """Properties of all clients of a cluster, by the file's keys; the last one of a name counts."""
        return {
            key: name
            for prefix in ("", f"{alias}.")
            for key, name in self._below(prefix).items()
            if is_of_every_client(name)
        }

    def below(self, *prefixes: str) -> dict[str, str]:
        """Keys with a prefix, and their names without it; the last one of a name counts."""
        return {key: name for prefix in prefixes for key, name in self._below(prefix).items()}

    def _below(self, prefix: str) -> dict[str, str]:
        return {key: key.removeprefix(prefix) for key in self.properties if key.startswith(prefix)}
