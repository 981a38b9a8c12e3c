"""SASL OAUTHBEARER: from Java's login module and `sasl.oauthbearer.*` to librdkafka's settings.

Java knows by its classes where a token comes from, librdkafka by `sasl.oauthbearer.method` and a grant type:

| Java | librdkafka |
| --- | --- |
| `clientId`, `clientSecret`, `scope` of the login module, or Kafka 4.1's keys | `method=oidc`, client credentials |
| `JwtBearerJwtRetriever` and `sasl.oauthbearer.assertion.*` | `method=oidc`, `grant.type` JWT bearer |
| `extension_NAME` of the login module | `sasl.oauthbearer.extensions` |
| `unsecuredLogin...` of the login module | tokens that are not signed, for tests |

No message holds any part of a login module's line.
"""

from __future__ import annotations

from collections.abc import Mapping

from k2k_assets.pipeline.clients.java_properties import Scalar

LOGIN_MODULE = "OAuthBearerLoginModule"
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
LOGIN_HANDLER = "sasl.login.callback.handler.class"
URL = "sasl.oauthbearer.token.endpoint.url"
METHOD = "sasl.oauthbearer.method"

OIDC_HANDLERS = frozenset({"OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler"})
"""Kafka's own login handlers, by class name: what they do, librdkafka does by itself."""

_GRANTS = {
    "DefaultJwtRetriever": "client_credentials",
    "ClientCredentialsJwtRetriever": "client_credentials",
    "JwtBearerJwtRetriever": "urn:ietf:params:oauth:grant-type:jwt-bearer",
}
_MODULE_OPTIONS = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_EXTENSION = "extension_"
_UNSECURED = "unsecuredLogin"
# Java's names, and librdkafka's in `sasl.oauthbearer.config`.
_UNSECURED_OPTIONS = {
    "unsecuredLoginPrincipalClaimName": "principalClaimName",
    "unsecuredLoginScopeClaimName": "scopeClaimName",
    "unsecuredLoginLifetimeSeconds": "lifeSeconds",
}
_CLAIM, _LIST_CLAIM, _UNSECURED_EXTENSION = (
    "unsecuredLoginStringClaim_",
    "unsecuredLoginListClaim_",
    "unsecuredLoginExtension_",
)


class OAuthError(ValueError):
    """The settings cannot be translated.

    Args:
        message: What is wrong, with nothing that may be secret.
        key: The key that it is about; None: the login module's line.
    """

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


def class_name(value: Scalar) -> str:
    """The name of a Java class without its package."""
    return str(value).strip().rpartition(".")[2]


def login_options(options: Mapping[str, str]) -> dict[str, Scalar]:
    """librdkafka's settings for the options of an OAuth login module.

    Args:
        options: By name.

    Raises:
        OAuthError: An option has no equivalent.
    """
    if any(name.startswith(_UNSECURED) for name in options):
        return _unsecured(options)
    out: dict[str, Scalar] = {}
    extensions = []
    for name, value in options.items():
        if name in _MODULE_OPTIONS:
            out[_MODULE_OPTIONS[name]] = value
        elif name.startswith(_EXTENSION):
            extensions.append(f"{name.removeprefix(_EXTENSION)}={value}")
        else:
            raise OAuthError(
                "an option of the OAuthBearerLoginModule is none of clientId, clientSecret, scope and extension_NAME. "
                "TLS towards the token endpoint is set by https.ca.location (a PEM file)"
            )
    if extensions:
        out["sasl.oauthbearer.extensions"] = ",".join(extensions)
    return out


def _unsecured(options: Mapping[str, str]) -> dict[str, Scalar]:
    principal = options.get("unsecuredLoginPrincipalClaimName", "sub")
    scope = options.get("unsecuredLoginScopeClaimName", "scope")
    words = []
    for name, value in options.items():
        if name in _UNSECURED_OPTIONS:
            words.append(f"{_UNSECURED_OPTIONS[name]}={value}")
        elif name == f"{_CLAIM}{principal}":
            words.append(f"principal={value}")
        elif name == f"{_LIST_CLAIM}{scope}":
            # Java's lists begin with their separator: |one|two. An empty one, and none at all, is no scope.
            if value:
                words.append(f"scope={','.join(value[1:].split(value[:1]))}")
        elif name.startswith(_UNSECURED_EXTENSION):
            words.append(f"extension_{name.removeprefix(_UNSECURED_EXTENSION)}={value}")
        else:
            raise OAuthError(
                "an unsecured token can have a principal (unsecuredLoginStringClaim_sub), a scope "
                "(unsecuredLoginListClaim_scope), a lifetime and extensions, and no other claim"
            )
    if any(" " in word for word in words):
        raise OAuthError("the options of an unsecured token must not contain blanks")
    return {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": " ".join(words)}


def endpoint_settings(given: Mapping[str, Scalar], from_module: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """How a token is fetched: what Java says by classes, and what both say by the token endpoint's address.

    Args:
        given: The keys of `security.KEYS` that the file has.
        from_module: What `login_options` made of the login module, if there is one.

    Raises:
        OAuthError: Tokens are to come from where librdkafka fetches none.
    """
    retriever = class_name(given[RETRIEVER]) if RETRIEVER in given else None
    url = str(given.get(URL, ""))
    if retriever == "FileJwtRetriever" or url.startswith("file:"):
        raise OAuthError(
            "a token cannot be read from a file: name a token endpoint (https://...) with the client's id and secret",
            RETRIEVER if retriever == "FileJwtRetriever" else URL,
        )
    if retriever is not None and retriever not in _GRANTS:
        raise OAuthError(f"Java code cannot be loaded; known are {', '.join(sorted(_GRANTS))}", RETRIEVER)
    out: dict[str, Scalar] = {URL: url} if url else {}
    if METHOD in given or "enable.sasl.oauthbearer.unsecure.jwt" in from_module:
        return out
    if not url and any(name.startswith("sasl.oauthbearer.client.") for name in from_module):
        raise OAuthError(f"{URL} is missing: where the client gets its tokens")
    if url:
        out[METHOD] = "oidc"
        if retriever and _GRANTS[retriever] != "client_credentials":
            out["sasl.oauthbearer.grant.type"] = _GRANTS[retriever]
    return out
