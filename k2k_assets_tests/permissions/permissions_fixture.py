"""A user without rights on two secured clusters, and pipelines that it runs."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AclBinding, AclOperation

from k2k_assets.cli.main import run
from k2k_assets.permissions.required import Permission, Program, required
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import Broker, KafkaSandbox
from k2k_assets.sandbox.principals import acls_of, allow, disallow, set_password
from k2k_assets_tests.support.brokers import kafka, secure
from k2k_assets_tests.support.brokers.acl_commands import granted

Case = tuple[str, str, str]
"""Cluster, subject and operation of one of the permissions that are needed."""

Way = Callable[[Broker, str], dict[str, str]]
"""Client properties for a user."""

_BY_PASSWORD = (secure.scram, secure.scram)
FEATURES = {"offsetMapping": "enabled", "exactlyOnce": "enabled"}


def with_dead_letters(topic: str) -> dict[str, Any]:
    """A rule that leaves records as they are, and needs a topic for those for which it fails."""
    keeps_all = {"not": {"value": "secret", "exists": True}}
    return {"pattern": ".*", "filter": keeps_all, "onError": "deadLetter", "deadLetters": topic}


def case_of(permission: Permission) -> Case:
    """Which of the cases it is."""
    return permission.cluster, permission.subject, permission.operation


class PermissionsFixture:
    """A user that is known to both clusters.

    Args:
        clusters: Secured ones.
        folder: For pipeline files.
        ways: How the user comes in on the source and on the target, such as `secure.scram`.

    Attributes:
        user: Its name.
        brokers: By role.
    """

    def __init__(
        self, clusters: KafkaSandbox, folder: Path, ways: tuple[Way, Way] = (secure.scram, secure.scram)
    ) -> None:
        self.brokers: dict[str, Broker] = {"source": clusters.source, "target": clusters.target}
        self.user = kafka.unique("user")
        self._folder = folder
        self._ways = dict(zip(self.brokers, ways, strict=True))
        for broker in self.brokers.values():
            set_password(secure.admin(broker), self.user, broker.security.password_file(self.user).read_text())

    def servers(self, role: str) -> str:
        """Where the administrator comes in."""
        return self.brokers[role].mtls_servers

    def pipeline_file(self, topics: str | list[str], exactly_once: bool = True, **rest: Any) -> Path:
        """A pipeline with names of its own, for its target topics too."""
        features = {**FEATURES, "exactlyOnce": "enabled" if exactly_once else "disabled"}
        source, target = (way(self.brokers[role], self.user) for role, way in self._ways.items())
        sink: dict[str, Any] = {"sink": {"prefix": f"{kafka.unique('copy')}."}, "features": features}
        sink["transform"] = [with_dead_letters(kafka.unique("dead"))]
        return secure.write_secure_pipeline(self._folder, source, target, topics, **{**sink, **rest})

    def pipeline(self, topics: str | list[str], exactly_once: bool = True, **rest: Any) -> Pipeline:
        """As `pipeline_file`, loaded."""
        return load_pipeline([self.pipeline_file(topics, exactly_once, **rest)])

    def grant(self, acls: Mapping[str, set[AclBinding]]) -> None:
        """Gives the user these rights, and takes all others away."""
        for role, broker in self.brokers.items():
            admin, wanted = secure.admin(broker), acls.get(role, set())
            has = acls_of(admin, self.user)
            if unwanted := has - wanted:
                disallow(admin, unwanted)
            if new := wanted - has:
                allow(admin, new)

    def acls(self, path: Path, *programs: Program) -> dict[str, set[AclBinding]]:
        """What the commands grant that `k2k acls` prints, by role."""
        options = [word for program in programs for word in ("--for", program)]
        if self._ways["target"] is not secure.scram:
            options += ["--target-principal", f"User:{self.user}"]  # only the broker knows whose certificate it is
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            assert run(["acls", "-f", str(path), *options]) == 0
        by_address = granted(printed.getvalue())
        addresses = {role: way(self.brokers[role], self.user)["bootstrap.servers"] for role, way in self._ways.items()}
        return {role: set(by_address.get(address, ())) for role, address in addresses.items()}

    def lacking(self, path: Path, program: Program, case: Case) -> tuple[dict[str, set[AclBinding]], str]:
        """The rights that a program needs but for one, and how the missing one is said."""
        (missing,) = [each for each in required(load_pipeline([path]), [program]) if case_of(each) == case]
        acls = self.acls(path, program)
        name = missing.operation.replace("DescribeConfigs", "DESCRIBE_CONFIGS").upper()
        operation = AclOperation[name]
        (without,) = [
            acl for acl in acls[missing.cluster] if (acl.name, acl.operation) == (missing.pattern.name, operation)
        ]
        acls[missing.cluster].remove(without)
        return acls, (
            f"the {missing.cluster} cluster ({self.brokers[missing.cluster].servers}) does not allow User:{self.user} "
            f"to {missing.operation} the {missing.resource} {missing.pattern}"
        )
