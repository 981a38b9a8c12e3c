from __future__ import annotations

import pytest

from k2k_assets.pipeline.clients.registry_properties import header_faults, translate_registry

URL = {"schema.registry.url": "https://registry:8081"}


def test_javas_names_become_those_of_the_python_client() -> None:
    found = translate_registry(
        {
            **URL,
            "basic.auth.credentials.source": "USER_INFO",
            "schema.registry.basic.auth.user.info": "me:secret",
            "schema.registry.ssl.truststore.location": "/ca.pem",
            "schema.registry.ssl.truststore.type": "PEM",
            "ssl.keystore.location": "/client.pem",
            "ssl.keystore.type": "PEM",
            "ssl.key.password": "pw",
            "proxy.host": "proxy",
            "proxy.port": 3128,
        }
    )
    assert found.faults == []
    assert found.client == {
        "url": "https://registry:8081",
        "basic.auth.user.info": "me:secret",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/client.pem",
        "ssl.key.location": "/client.pem",
        "ssl.key.password": "pw",
        "proxy": "http://proxy:3128",
    }
    assert (found.registers, found.normalizes) == (True, False)


def test_a_static_token() -> None:
    bearer = {
        "bearer.auth.credentials.source": "STATIC_TOKEN",
        "bearer.auth.token": "t",
        "bearer.auth.logical.cluster": "lsrc-1",
    }
    assert translate_registry({**URL, **bearer}).client == {"url": "https://registry:8081", **bearer}


def test_flags() -> None:
    found = translate_registry({**URL, "auto.register.schemas": "false", "normalize.schemas": True})
    assert (found.registers, found.normalizes, found.faults) == (False, True, [])
    assert translate_registry({**URL, "normalize.schemas": "no"}).faults == [
        ("normalize.schemas", "expected true or false")
    ]


@pytest.mark.parametrize(
    ("config", "key", "words"),
    [
        ({}, "schema.registry.url", "missing"),
        ({**URL, "schema.registry.urls": "x"}, "schema.registry.urls", "unknown setting"),
        ({**URL, "ssl.truststore.location": "/a.jks"}, "ssl.truststore.location", "convert it to PEM"),
        (
            {**URL, "schema.registry.ssl.keystore.location": "/a.p12"},
            "schema.registry.ssl.keystore.location",
            "openssl pkcs12",
        ),
        ({**URL, "basic.auth.credentials.source": "SASL_INHERIT"}, "basic.auth.credentials.source", "USER_INFO"),
        ({**URL, "basic.auth.credentials.source": "USER_INFO"}, "basic.auth.credentials.source", "missing"),
        ({**URL, "ssl.truststore.certificates": "-----"}, "ssl.truststore.certificates", "ssl.truststore.location"),
    ],
)
def test_what_cannot_be_used_is_told_with_its_key(config: dict[str, str | int], key: str, words: str) -> None:
    ((found, message),) = translate_registry(config).faults
    assert found == key
    assert words in message


def test_what_has_no_effect_is_told() -> None:
    assert translate_registry({**URL, "use.latest.version": True}).remarks == [
        ("use.latest.version", "ids are mapped; the latest version does not matter")
    ]


@pytest.mark.parametrize("name", ["bearer.auth.token", "bearer.auth.logical.cluster", "basic.auth.user.info"])
@pytest.mark.parametrize("value", ["me:s3cret\n", "me:s3\x00cret"])
def test_a_secret_that_no_request_can_carry_is_told_without_it(name: str, value: str) -> None:
    """An HTTP library would put it into its words, and these into each log and stop."""
    ((found, message),) = translate_registry({**URL, name: value}).faults
    assert found == name
    assert "cret" not in message.replace("secret", "")


@pytest.mark.parametrize("value", ["Bearer s3cret\n", "Bearer s3\r\ncret", "s3cret ", "s3crét", "s3\x7fcret"])
def test_a_header_that_no_request_can_have_is_told_without_its_value(value: str) -> None:
    ((name, message),) = header_faults({"Authorization": value, "X-Tenant": "a\tb", "X-Empty": ""})
    assert name == "Authorization"
    assert "no HTTP header may" in message
    assert "s3" not in message


def test_a_header_has_a_name() -> None:
    assert list(header_faults({"X Tenant": "a", "": "b", "X-Ténant": "c"})) == [
        ("X Tenant", "no name of an HTTP header"),
        ("", "no name of an HTTP header"),
        ("X-Ténant", "no name of an HTTP header"),
    ]


@pytest.mark.parametrize(
    "url",
    [
        "https://reg:80x",
        "https://reg:99999",
        "https://[::1",
        "https://",
        "reg:8081",
        "https://re g",
        "https://re\ng",
        "https://a,",
        "https://user:s3cret@:1",
    ],
)
@pytest.mark.parametrize("name", ["schema.registry.url", "bearer.auth.issuer.endpoint.url"])
def test_what_is_no_address_is_told(name: str, url: str) -> None:
    ((found, message),) = translate_registry({**URL, name: url}).faults
    assert (found, "no address" in message, "s3cret" in message) == (name, True, False)


def test_addresses() -> None:
    urls = "https://u:s3,cr/e t@a , http://[::1]:8081/api/contexts/:.prod:"
    assert translate_registry({"schema.registry.url": urls}).faults == []
    assert translate_registry({**URL, "proxy.host": "u:pw@proxy", "proxy.port": 1}).faults == []
    for proxy in ({"proxy.host": "proxy", "proxy.port": "80x"}, {"proxy.host": "http://proxy"}, {"proxy.host": ""}):
        ((found, _),) = translate_registry({**URL, **proxy}).faults
        assert found == "proxy.host"
