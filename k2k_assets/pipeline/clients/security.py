"""TLS stores and SASL credentials: from Java's keys to librdkafka's.

Java keeps certificates in stores, OpenSSL reads PEM files (and PKCS12 for the client's own key). What cannot be read
is refused with the command that converts it.
"""

from __future__ import annotations

from collections.abc import Mapping

from k2k_assets.pipeline.clients import oauth
from k2k_assets.pipeline.clients.jaas import PASSWORD_MODULES, JaasError, parse_login_module, user_and_password
from k2k_assets.pipeline.clients.java_properties import Scalar

_KEYS = """
sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd sasl.login.callback.handler.class
sasl.mechanism sasl.mechanisms sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.method
sasl.oauthbearer.token.endpoint.url ssl.cipher.suites ssl.endpoint.identification.algorithm
ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type
ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
"""
KEYS = frozenset(_KEYS.split())
"""The Java keys that this module takes."""

_PEM_ENDINGS = (".pem", ".crt", ".cer", ".cert")
_PKCS12_ENDINGS = (".p12", ".pfx", ".pkcs12")
_TO_PKCS12 = "keytool -importkeystore -srckeystore STORE -destkeystore STORE.p12 -deststoretype PKCS12"
_TO_PEM = "openssl pkcs12 -in STORE.p12 -nokeys -out ca.pem"
_HANDLERS = ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class")
_MSK = (
    "signing in to Amazon MSK by IAM needs Amazon's Java classes. Give the pipeline a user with a password instead "
    "(SASL/SCRAM, port 9096, a secret whose name begins with AmazonMSK_), or a client certificate (TLS, port 9094)"
)
_KERBEROS = (
    "write sasl.kerberos.keytab, sasl.kerberos.principal and sasl.kerberos.service.name instead of the login module, "
    "with sasl.mechanism GSSAPI. It needs a confluent-kafka that was built with Kerberos, which that of PyPI is not"
)


class SecurityFault(ValueError):
    """A key that cannot be translated; the message never holds a value that may be secret."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def kinit_is_path(given: Mapping[str, Scalar]) -> bool:
    """Whether the Kerberos command is Java's: a path only, where librdkafka wants the whole command."""
    return "sasl.kerberos.kinit.cmd" in given and " " not in str(given["sasl.kerberos.kinit.cmd"])


def translate_security(given: Mapping[str, Scalar]) -> tuple[dict[str, Scalar], list[SecurityFault]]:
    """librdkafka's properties for those of `KEYS` that are in `given`, and what could not be translated."""
    out: dict[str, Scalar] = {}
    faults: list[SecurityFault] = []
    for step in (_mechanism, _classes, _login, _truststore, _keystore, _rest):
        try:
            out.update(step(given))
        except SecurityFault as fault:
            faults.append(fault)
    return out, faults


def _mechanism(given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    out: dict[str, Scalar] = {}
    for key in ("sasl.mechanism", "sasl.mechanisms"):
        if key in given:
            if str(given[key]).upper() == "AWS_MSK_IAM":
                raise SecurityFault(key, _MSK)
            out[key] = given[key]
    return out


def _classes(given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Java's handlers: what Kafka's own do for OAuth, librdkafka does by itself."""
    for key in _HANDLERS:
        name = oauth.class_name(given.get(key, ""))
        if name.startswith("IAM"):
            raise SecurityFault(key, _MSK)
        if name and not (key == oauth.LOGIN_HANDLER and name in oauth.OIDC_HANDLERS):
            raise SecurityFault(
                key, "not possible: Java code cannot be loaded; use the sasl.* properties of librdkafka"
            )
    return {}


def _login(given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The login module, and where OAuth's tokens come from."""
    method: dict[str, Scalar] = {oauth.METHOD: given[oauth.METHOD]} if oauth.METHOD in given else {}
    try:
        from_module = _module(str(given["sasl.jaas.config"])) if "sasl.jaas.config" in given else {}
        return {**from_module, **oauth.endpoint_settings(given, from_module), **method}
    except (JaasError, oauth.OAuthError) as error:
        raise SecurityFault(getattr(error, "key", None) or "sasl.jaas.config", str(error)) from None


def _module(line: str) -> dict[str, Scalar]:
    module = parse_login_module(line)
    if module.name in PASSWORD_MODULES:
        username, password = user_and_password(module)
        return {"sasl.username": username, "sasl.password": password}
    if module.name == oauth.LOGIN_MODULE:
        return oauth.login_options(module.options)
    hints = {"Krb5LoginModule": _KERBEROS, "IAMLoginModule": _MSK}
    known = ", ".join((*sorted(PASSWORD_MODULES), oauth.LOGIN_MODULE))
    raise JaasError(f"this login module is not supported; {hints.get(module.name, f'known are {known}')}")


def _truststore(given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    out: dict[str, Scalar] = {}
    if "ssl.truststore.certificates" in given:
        out["ssl.ca.pem"] = given["ssl.truststore.certificates"]
    if "ssl.truststore.location" in given:
        kind = _store_type(given, "ssl.truststore")
        if kind != "PEM":
            first = f"{_TO_PKCS12} && " if kind == "JKS" else ""
            raise SecurityFault(
                "ssl.truststore.location",
                f"a {kind} trust store cannot be read; convert it to PEM (`{first}{_TO_PEM}`), point to that file and "
                "set ssl.truststore.type to PEM",
            )
        out["ssl.ca.location"] = given["ssl.truststore.location"]
    return out


def _keystore(given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    out: dict[str, Scalar] = {}
    if "ssl.keystore.certificate.chain" in given:
        out["ssl.certificate.pem"] = given["ssl.keystore.certificate.chain"]
    if "ssl.keystore.key" in given:
        out["ssl.key.pem"] = given["ssl.keystore.key"]
    location = given.get("ssl.keystore.location")
    if location is None:
        return out
    kind = _store_type(given, "ssl.keystore")
    if kind == "JKS":
        raise SecurityFault(
            "ssl.keystore.location",
            f"a JKS key store cannot be read; convert it to PKCS12 (`{_TO_PKCS12}`), point to that file and set "
            "ssl.keystore.type to PKCS12",
        )
    if kind == "PEM":
        # Java's PEM key store is one file with the key and the certificates.
        return {**out, "ssl.key.location": location, "ssl.certificate.location": location}
    out["ssl.keystore.location"] = location
    if "ssl.keystore.password" in given:
        out["ssl.keystore.password"] = given["ssl.keystore.password"]
    return out


def _store_type(given: Mapping[str, Scalar], store: str) -> str:
    """PEM, PKCS12 or JKS. Without a type the file's ending tells, and else Java's default, JKS."""
    location = str(given[f"{store}.location"]).lower()
    kind = str(given.get(f"{store}.type", "")).upper()
    if not kind:
        kind = "PEM" if location.endswith(_PEM_ENDINGS) else "PKCS12" if location.endswith(_PKCS12_ENDINGS) else "JKS"
    if kind not in ("PEM", "PKCS12", "JKS"):
        raise SecurityFault(f"{store}.type", "expected PEM, PKCS12 or JKS")
    return kind


def _rest(given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    out: dict[str, Scalar] = {}
    if "ssl.endpoint.identification.algorithm" in given:
        # Java switches the check off by an empty text.
        out["ssl.endpoint.identification.algorithm"] = given["ssl.endpoint.identification.algorithm"] or "none"
    suites = given.get("ssl.cipher.suites")
    if suites is not None:
        if "TLS_" in str(suites):
            raise SecurityFault("ssl.cipher.suites", "expected OpenSSL's names (`openssl ciphers`), found Java's")
        out["ssl.cipher.suites"] = suites
    if "sasl.kerberos.kinit.cmd" in given and not kinit_is_path(given):
        out["sasl.kerberos.kinit.cmd"] = given["sasl.kerberos.kinit.cmd"]
    return out
