"""Usual `sasl.jaas.config` lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2k_assets.pipeline.clients.jaas import JaasError, parse_login_module, user_and_password
from k2k_assets.pipeline.clients.security import SecurityFault, translate_security


def parse_jaas(line: str) -> tuple[str, str]:
    return user_and_password(parse_login_module(line))


def refusal(line: str) -> SecurityFault:
    values, (fault,) = translate_security({"sasl.jaas.config": line})
    assert values == {}
    return fault


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    "line",
    [
        f'{PLAIN} required username="u" password="p w;=";',
        f'{SCRAM} required username="u" password="p w;=" ;',
        f"{SCRAM} required username='u' password='p w;=';",
        f'{SCRAM} required\n  password="p w;="\n  username=u;\n',
        f'{SCRAM} REQUIRED username = "u" password = "p w;="',
        f'{SCRAM} required tokenauth="true" username="u" password="p w;=";',
        f'# comment\n{SCRAM} required /* c */ username="u" // c\n password="p w;=";',
        'PlainLoginModule required username="u" password="p\\x20w;=";'.replace("\\x20", " "),
    ],
)
def test_user_and_password(line: str) -> None:
    assert parse_jaas(line) == ("u", "p w;=")


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_password_survives_quoting(username: str, password: str) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    line = f"{SCRAM} required username={quoted(username)} password={quoted(password)};"
    assert parse_jaas(line) == (username, password)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "expected '<login module> required"),
        (f'{PLAIN} username="u" password="secret";', "expected '<login module> required"),
        (f'{PLAIN} required username="u";', "expected username=... and password=..."),
        (f'{PLAIN} required username="u" password="secret', "a quote is not closed"),
        (f'{PLAIN} required username="u" password=;', "name=value pairs"),
        (f'{PLAIN} required username="u" password="secret" extra;', "name=value pairs"),
        (f'{PLAIN} required username="u" password="secret"; {SCRAM} required a="b";', "expected one login module"),
        ('com.sun.Krb5LoginModule required keyTab="secret";', "sasl.kerberos.keytab"),
        ('my.secret.Module required a="b";', "PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule"),
        ('x.IAMLoginModule required awsProfileName="secret";', "SASL/SCRAM, port 9096"),
    ],
)
def test_refusals_print_nothing_of_the_line(line: str, message: str) -> None:
    assert message in str(refusal(line))
    assert "secret" not in str(refusal(line)).replace("a secret whose name", "")


@given(st.text(max_size=60))
def test_any_line_is_read_or_refused(line: str) -> None:
    try:
        assert len(parse_jaas(line)) == 2
    except JaasError:
        return
