"""Translates a schema registry client's settings from Confluent's Java names to its Python names.

Java's names may begin with `schema.registry.`; only `schema.registry.url` must.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from k2k_assets.pipeline.clients.java_properties import Scalar
from k2k_assets.pipeline.clients.registry_address import address_of, is_address
from k2k_assets.pipeline.clients.security import KEYS as SECURITY_KEYS
from k2k_assets.pipeline.clients.security import translate_security

_PREFIX = "schema.registry."
_TRUE = ("true", "false")
_BEARER = (
    "bearer.auth.credentials.source",
    "bearer.auth.token",
    "bearer.auth.issuer.endpoint.url",
    "bearer.auth.client.id",
    "bearer.auth.client.secret",
    "bearer.auth.scope",
    "bearer.auth.logical.cluster",
    "bearer.auth.identity.pool.id",
)
# Of these, requests have headers as they are, and of those base64.
_IN_HEADERS = ("bearer.auth.token", "bearer.auth.logical.cluster", "bearer.auth.identity.pool.id")
_ENCODED = ("basic.auth.user.info", "bearer.auth.client.id", "bearer.auth.client.secret")
_HEADER_NAME = re.compile(r"[-!#$%&'*+.^_`|~0-9a-zA-Z]+")  # RFC 9110, 5.6.2
_HEADER_VALUE = re.compile(r"[\t -~]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")  # RFC 7617, 2
_ECHO = "`echo` writes a line break behind a secret, `printf %s` does not"
_NO_EFFECT = {
    "max.schemas.per.subject": "all schemas that were asked for are kept",
    "http.connect.timeout.ms": "an attempt takes at most four seconds",
    "http.read.timeout.ms": "an attempt takes at most four seconds",
    "key.subject.name.strategy": "a schema is registered under the subject that it has on the source",
    "value.subject.name.strategy": "a schema is registered under the subject that it has on the source",
    "latest.compatibility.strict": "ids are mapped; the latest version does not matter",
    "use.latest.version": "ids are mapped; the latest version does not matter",
}
# Settings that this client cannot use, with the Java setting that they came from, and what to do.
_IMPOSSIBLE = {
    "ssl.keystore.location": (
        "ssl.keystore.location",
        "a PKCS12 key store cannot be read here; convert it to PEM (`openssl pkcs12 -in STORE.p12 -nodes -out "
        "client.pem`), point to that file and set ssl.keystore.type to PEM",
    ),
    "ssl.ca.pem": ("ssl.truststore.certificates", "certificates are read from a file: write ssl.truststore.location"),
    "ssl.certificate.pem": (
        "ssl.keystore.certificate.chain",
        "certificates are read from a file: write ssl.keystore.location",
    ),
    "ssl.key.pem": ("ssl.keystore.key", "keys are read from a file: write ssl.keystore.location"),
    "ssl.endpoint.identification.algorithm": (
        "ssl.endpoint.identification.algorithm",
        "a registry's host name is always checked against its certificate",
    ),
}


@dataclass(slots=True)
class RegistryProperties:
    """A registry's settings.

    Attributes:
        client: Settings of the Python client, under its names.
        registers: Whether missing schemas are registered.
        normalizes: Whether the registry is asked to normalize schemas.
        faults: Keys of the file that cannot be used, and why.
        remarks: Keys of the file that have no effect, and why.
    """

    client: dict[str, Scalar] = field(default_factory=dict)
    registers: bool = True
    normalizes: bool = False
    faults: list[tuple[str, str]] = field(default_factory=list)
    remarks: list[tuple[str, str]] = field(default_factory=list)


def translate_registry(config: Mapping[str, Scalar]) -> RegistryProperties:
    """Translates `registry.config`.

    Args:
        config: The section in the file.
    """
    found = RegistryProperties()
    given = {_plain(key): (key, value) for key, value in config.items()}
    if "url" not in given:
        found.faults.append(("schema.registry.url", "missing: where the registry answers, such as https://host:8081"))
    for name in ("url", "bearer.auth.issuer.endpoint.url"):
        key, value = given.get(name, ("", "https://none"))
        if not all(is_address(url.strip()) for url in address_of(str(value)).url.split(",")):
            found.faults.append((key, "no address that can be asked: expected one such as https://host:8081"))
    _flags(given, found)
    _security(
        {name: each for name, each in given.items() if name in SECURITY_KEYS or name == "ssl.key.password"}, found
    )
    _basic(given, found)
    for name, (key, value) in given.items():
        if name in _IN_HEADERS and (why := _unfit_for_a_header(str(value))):
            found.faults.append((key, why))
        if name in _ENCODED and _CONTROL.search(str(value)):
            found.faults.append((key, f"has a line break or another control character, which no login may: {_ECHO}"))
        if name == "url" or name in _BEARER:
            found.client[name] = str(value)
        elif name in _NO_EFFECT:
            found.remarks.append((key, _NO_EFFECT[name]))
        elif name not in _TAKEN and (name not in SECURITY_KEYS or name.startswith("sasl.")):
            found.faults.append((key, "unknown setting of a schema registry's client"))
    return found


def header_faults(headers: Mapping[str, Scalar]) -> Iterator[tuple[str, str]]:
    """Names of headers that no request can have, and why, without a word of their values, which may be secret.

    Args:
        headers: `registry.headers`.
    """
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            yield name, "no name of an HTTP header"
        elif why := _unfit_for_a_header(str(value)):
            yield name, why


def _unfit_for_a_header(value: str) -> str | None:
    if value != value.strip():
        return f"begins or ends with a blank or a line break, which no HTTP header may: {_ECHO}"
    return None if _HEADER_VALUE.fullmatch(value) else "has characters that no HTTP header may have: only ASCII may be"


_TAKEN = (
    "auto.register.schemas",
    "normalize.schemas",
    "basic.auth.user.info",
    "basic.auth.credentials.source",
    "ssl.key.password",
    "proxy.host",
    "proxy.port",
)


def _plain(key: str) -> str:
    return key.removeprefix(_PREFIX)


def _flags(given: Mapping[str, tuple[str, Scalar]], found: RegistryProperties) -> None:
    for name, default in (("auto.register.schemas", True), ("normalize.schemas", False)):
        key, value = given.get(name, (name, default))
        text = str(value).lower()
        if text not in _TRUE:
            found.faults.append((key, "expected true or false"))
        elif name == "auto.register.schemas":
            found.registers = text == "true"
        else:
            found.normalizes = text == "true"
    if "proxy.host" in given:
        port = given.get("proxy.port", ("", "-1"))[1]
        found.client["proxy"] = proxy = f"http://{given['proxy.host'][1]}" + (f":{port}" if str(port) != "-1" else "")
        if not is_address(address_of(proxy).url):
            found.faults.append((given["proxy.host"][0], "no proxy: expected its host, and its port as proxy.port"))


def _basic(given: Mapping[str, tuple[str, Scalar]], found: RegistryProperties) -> None:
    """As in Java, `basic.auth.user.info` counts only if `basic.auth.credentials.source` is USER_INFO, not URL."""
    key, source = given.get("basic.auth.credentials.source", ("", "USER_INFO" if _has_user(given) else "URL"))
    if source == "USER_INFO" and _has_user(given):
        found.client["basic.auth.user.info"] = str(given["basic.auth.user.info"][1])
    elif source == "USER_INFO":
        found.faults.append((key, "basic.auth.user.info is missing"))
    elif source != "URL":
        found.faults.append((key, "expected URL or USER_INFO, with basic.auth.user.info"))


def _has_user(given: Mapping[str, tuple[str, Scalar]]) -> bool:
    return "basic.auth.user.info" in given


def _security(given: Mapping[str, tuple[str, Scalar]], found: RegistryProperties) -> None:
    translated, faults = translate_security({name: value for name, (_, value) in given.items()})
    found.faults.extend((given[fault.key][0] if fault.key in given else fault.key, str(fault)) for fault in faults)
    for name, value in translated.items():
        if name in _IMPOSSIBLE:
            key, why = _IMPOSSIBLE[name]
            found.faults.append((given[key][0], why))
        elif name.startswith("ssl."):
            found.client[name] = value
    if "ssl.key.password" in given:
        found.client["ssl.key.password"] = given["ssl.key.password"][1]
