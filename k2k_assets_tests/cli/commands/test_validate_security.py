"""`k2k validate` answers what cannot work here (JKS, Amazon's IAM, Kerberos) with what does."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer

from k2k_assets.cli.main import run
from k2k_assets.java.find import find_java
from k2k_assets.pipeline import load_pipeline
from k2k_assets_tests.support.brokers.secure import write_secure_pipeline

PLACE = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_SSL"}
MSK = "software.amazon.msk.auth.iam."


def validated(directory: Path, capsys: pytest.CaptureFixture[str], **properties: str) -> tuple[int, str]:
    path = write_secure_pipeline(directory, {**PLACE, **properties}, {"bootstrap.servers": "127.0.0.1:1"}, ["orders"])
    capsys.readouterr()
    code = run(["validate", "-f", str(path)])
    said = capsys.readouterr()
    return code, said.out + said.err


@pytest.mark.parametrize(
    "properties",
    [
        {"sasl.mechanism": "AWS_MSK_IAM"},
        {"sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": f"{MSK}IAMLoginModule required;",
         "sasl.client.callback.handler.class": f"{MSK}IAMClientCallbackHandler"},
        {"sasl.mechanism": "OAUTHBEARER",
         "sasl.login.callback.handler.class": f"{MSK}IAMOAuthBearerLoginCallbackHandler"},
    ],
)  # fmt: skip
def test_amazons_iam(tmp_path: Path, capsys: pytest.CaptureFixture[str], properties: dict[str, str]) -> None:
    """Amazon's IAM is refused, and the ways that work with Amazon's brokers are named."""
    code, said = validated(tmp_path, capsys, **properties)
    assert code == 2
    words = " ".join(said.split())
    assert "SASL/SCRAM, port 9096" in words
    assert "client certificate (TLS, port 9094)" in words


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}, 3),
        ({}, 3),  # both libraries' default where SASL is asked for
        ({"sasl.mechanism": "GSSAPI", "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"}, 2),
    ],
)
def test_kerberos(tmp_path: Path, capsys: pytest.CaptureFixture[str], properties: dict[str, str], code: int) -> None:
    """As long as the client of PyPI has none: then `clients.NO_KERBEROS` is true no more."""
    found, said = validated(tmp_path, capsys, **properties)
    assert found == code
    words = " ".join(said.split())
    assert "of PyPI is" in words
    assert "SCRAM" in words or "sasl.kerberos.keytab" in words


@pytest.mark.processes
def test_the_command_that_converts_a_jks_key_store_makes_one_that_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keytool = find_java().with_name("keytool")
    store, password = tmp_path / "client.jks", "changeit-4711"
    made = [keytool, "-genkeypair", "-alias", "k2k", "-keyalg", "RSA", "-dname", "CN=k2k", "-storetype", "JKS",
            "-keystore", store, "-storepass", password, "-keypass", password]  # fmt: skip
    subprocess.run(list(map(str, made)), check=True, capture_output=True, timeout=60)
    keys = {"security.protocol": "SSL", "ssl.keystore.location": str(store), "ssl.keystore.password": password}
    code, said = validated(tmp_path, capsys, **keys)
    assert code == 2
    (command,) = re.findall(r"`(keytool [^`]*)`", " ".join(said.split()))
    converted = shlex.split(command.replace("STORE", str(store)))[1:]
    passwords = ["-srcstorepass", password, "-deststorepass", password, "-noprompt"]
    subprocess.run([str(keytool), *converted, *passwords], check=True, capture_output=True, timeout=60)
    other = {**keys, "ssl.keystore.location": f"{store}.p12", "ssl.keystore.type": "PKCS12"}
    path = write_secure_pipeline(tmp_path, {**PLACE, **other}, {"bootstrap.servers": "127.0.0.1:1"}, ["orders"])
    properties = load_pipeline([path]).client_properties("source", "admin")
    Producer(properties)  # reads the key store
