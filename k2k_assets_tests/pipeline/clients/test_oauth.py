"""Java's settings for OAUTHBEARER, as users of Kafka's own clients have them, under librdkafka's names."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.pipeline.clients.client_properties import translate
from k2k_assets.pipeline.clients.java_properties import Scalar
from k2k_assets.pipeline.clients.security import translate_security

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
OLD_HANDLER = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
RETRIEVERS = "org.apache.kafka.common.security.oauthbearer."
URL = "sasl.oauthbearer.token.endpoint.url"
ENDPOINT = "https://login.example.com/oauth2/token"
OAUTH: dict[str, Scalar] = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


def translated(settings: dict[str, Scalar]) -> dict[str, Scalar]:
    """What a client gets; librdkafka takes all of it."""
    result = translate("target", "producer", [("target.kafka.common", {**OAUTH, **settings})], exactly_once=False)
    assert (result.faults, result.warnings) == ([], [])
    found = {key: value for key, value in result.values.items() if key not in {*OAUTH, "partitioner"}}
    Producer({**OAUTH, **found})
    return found


@pytest.mark.parametrize("handler", [{}, {"sasl.login.callback.handler.class": OLD_HANDLER},
                                     {"sasl.login.callback.handler.class": HANDLER}])  # fmt: skip
def test_client_credentials_in_a_login_module(handler: dict[str, Scalar]) -> None:
    line = f'{MODULE} clientId="k2k" clientSecret="s;=c r" scope="kafka" extension_logicalCluster="lkc-1" ' \
        'extension_identityPoolId="pool-2";'  # fmt: skip
    assert translated({"sasl.jaas.config": line, URL: ENDPOINT, **handler}) == {
        "sasl.oauthbearer.method": "oidc",
        URL: ENDPOINT,
        "sasl.oauthbearer.client.id": "k2k",
        "sasl.oauthbearer.client.secret": "s;=c r",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
    }


@pytest.mark.parametrize("retriever", [None, "DefaultJwtRetriever", "ClientCredentialsJwtRetriever"])
def test_client_credentials_as_kafka_4_1_has_them(retriever: str | None) -> None:
    settings: dict[str, Scalar] = {
        URL: ENDPOINT,
        "sasl.oauthbearer.client.credentials.client.id": "k2k",
        "sasl.oauthbearer.client.credentials.client.secret": "secret",
        "sasl.oauthbearer.scope": "kafka",
    }
    java: dict[str, Scalar] = {"sasl.oauthbearer.jwt.retriever.class": RETRIEVERS + retriever} if retriever else {}
    assert translated({**settings, **java}) == {**settings, "sasl.oauthbearer.method": "oidc"}


def test_an_assertion_as_kafka_4_1_has_it() -> None:
    settings: dict[str, Scalar] = {
        URL: ENDPOINT,
        "sasl.oauthbearer.jwt.retriever.class": f"{RETRIEVERS}JwtBearerJwtRetriever",
        "sasl.oauthbearer.assertion.private.key.file": "/etc/k2k/key.pem",
        "sasl.oauthbearer.assertion.claim.iss": "k2k",
    }
    result, faults = translate_security(settings)
    assert faults == []
    assert result == {
        URL: ENDPOINT,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
    }


def test_tokens_without_a_signature() -> None:
    line = (
        f'{MODULE} unsecuredLoginStringClaim_sub="alice" unsecuredLoginLifetimeSeconds="600" '
        'unsecuredLoginListClaim_scope="|read|write" unsecuredLoginExtension_traceId="7";'
    )
    found = translated({"sasl.jaas.config": line})
    assert found == {
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=alice lifeSeconds=600 scope=read,write extension_traceId=7",
    }


def test_an_empty_scope_is_none() -> None:
    line = f'{MODULE} unsecuredLoginStringClaim_sub="alice" unsecuredLoginListClaim_scope="";'
    assert translated({"sasl.jaas.config": line})["sasl.oauthbearer.config"] == "principal=alice"


def test_librdkafkas_own_names_stay_as_they_are() -> None:
    settings: dict[str, Scalar] = {
        "sasl.oauthbearer.method": "oidc",
        URL: ENDPOINT,
        "sasl.oauthbearer.client.id": "k2k",
        "sasl.oauthbearer.client.secret": "secret",
        "https.ca.location": "probe",
    }
    assert translated(settings) == settings


@pytest.mark.parametrize(
    ("settings", "key", "message"),
    [
        ({"sasl.jaas.config": f'{MODULE} clientId="a" clientSecret="hidden";'}, "sasl.jaas.config",
         f"{URL} is missing"),
        ({"sasl.jaas.config": f'{MODULE} ssl.truststore.password="hidden";', URL: ENDPOINT}, "sasl.jaas.config",
         "TLS towards the token endpoint"),
        ({"sasl.jaas.config": f'{MODULE} unsecuredLoginNumberClaim_hidden="1";'}, "sasl.jaas.config", "no other claim"),
        ({"sasl.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="hidden hidden";'}, "sasl.jaas.config",
         "blanks"),
        ({URL: "file:///hidden/token"}, URL, "cannot be read from a file"),
        ({URL: ENDPOINT, "sasl.oauthbearer.jwt.retriever.class": f"{RETRIEVERS}FileJwtRetriever"},
         "sasl.oauthbearer.jwt.retriever.class", "cannot be read from a file"),
        ({URL: ENDPOINT, "sasl.oauthbearer.jwt.retriever.class": "my.hidden.Retriever"},
         "sasl.oauthbearer.jwt.retriever.class", "known are ClientCredentialsJwtRetriever"),
        ({"sasl.login.callback.handler.class": "my.hidden.Handler"}, "sasl.login.callback.handler.class",
         "Java code cannot be loaded"),
        ({"sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler"},
         "sasl.client.callback.handler.class", "SASL/SCRAM, port 9096"),
        ({"sasl.mechanism": "AWS_MSK_IAM"}, "sasl.mechanism", "client certificate (TLS, port 9094)"),
    ],
)  # fmt: skip
def test_what_is_refused_says_what_to_do(settings: dict[str, Scalar], key: str, message: str) -> None:
    _, (fault,) = translate_security(settings)
    assert (fault.key, message in str(fault)) == (key, True), str(fault)
    assert "hidden" not in str(fault)


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_secret_survives_quoting(client: str, secret: str) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    line = f"{MODULE} clientId={quoted(client)} clientSecret={quoted(secret)};"
    values, _ = translate_security({"sasl.jaas.config": line, URL: ENDPOINT})
    assert (values["sasl.oauthbearer.client.id"], values["sasl.oauthbearer.client.secret"]) == (client, secret)
