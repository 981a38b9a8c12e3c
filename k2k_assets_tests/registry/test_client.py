"""The registry client with faulty registries: a user never sees a traceback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from k2k_assets.core.errors import Refused
from k2k_assets.pipeline.clients.registry_address import Address, address_of
from k2k_assets.registry.client import ConfluentRegistry
from k2k_assets.registry.of_pipeline import open_registry
from k2k_assets.registry.schemas import (
    RegistryRefused,
    RegistryUnreachable,
    Schema,
    SchemaNotFound,
    SchemaRefused,
    SubjectVersion,
)
from k2k_assets_tests.pipeline.files import changed, load_text

LONG = Schema("AVRO", '"long"')


@pytest.fixture
def answers() -> Iterator[dict[str, tuple[int, str]]]:
    """A server whose answers a test sets, by method; its address is under `url`."""
    said: dict[str, tuple[int, str]] = {}

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body = said[self.command]
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_GET = do_POST = _answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        said["url"] = (0, f"http://127.0.0.1:{server.server_port}")
        yield said
        server.shutdown()


def registry(answers: dict[str, tuple[int, str]]) -> ConfluentRegistry:
    return ConfluentRegistry("target", {"url": answers["url"][1], "max.retries": 0}, {})


@pytest.mark.parametrize("status", [401, 403])
def test_a_registry_that_lets_nobody_in_is_not_waited_for(answers: dict[str, tuple[int, str]], status: int) -> None:
    answers["GET"] = answers["POST"] = (status, '{"error_code": 40101, "message": "Unauthorized"}')
    for ask in (lambda: registry(answers).schema(1), lambda: registry(answers).register("s", LONG)):
        with pytest.raises(
            RegistryRefused, match=rf"the target's schema registry .* refuses .* \({status}\): Unauth"
        ) as refused:
            ask()
        assert refused.value.may_pass, "it may be that what it asks is just starting"


@pytest.mark.parametrize(
    ("status", "wanted"), [(401, RegistryRefused), (404, RegistryUnreachable), (503, RegistryUnreachable)]
)
def test_what_stands_before_a_registry_may_have_error_codes_of_its_own(
    answers: dict[str, tuple[int, str]], status: int, wanted: type[Exception]
) -> None:
    """Such as texts: that is no registry's answer, and no traceback."""
    answers["GET"] = (status, '{"error_code": "APIG.0303", "message": "no"}')
    with pytest.raises(wanted, match="APIG"):
        registry(answers).schema(1)


@pytest.mark.parametrize("given", ["headers", "token"])
def test_a_request_that_cannot_be_sent_shows_no_secret(answers: dict[str, tuple[int, str]], given: str) -> None:
    """The words of the HTTP library show the header whose value has a line break."""
    settings: dict[str, object] = {"url": answers["url"][1], "max.retries": 0}
    headers = {"Authorization": "Bearer s3cret\n"} if given == "headers" else {}
    if given == "token":
        settings["bearer.auth.credentials.source"] = "STATIC_TOKEN"
        settings.update(
            {f"bearer.auth.{name}": "s3cret\n" for name in ("token", "logical.cluster", "identity.pool.id")}
        )
    with pytest.raises(RegistryUnreachable, match="a header cannot be sent") as unsent:
        ConfluentRegistry("target", settings, headers).schema(1)
    assert "s3cret" not in str(unsent.value)


def test_an_address_that_is_none_is_told_in_words() -> None:
    with pytest.raises(RegistryRefused, match=r"cannot be asked: Invalid port: '80x'\. See source"):
        ConfluentRegistry("source", {"url": "https://reg:80x"}, {}).schema(1)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"headers": {"Authorization": "Bearer s3crét"}}, r'source.registry.headers."Authorization": has characters'),
        ({"config": {"schema.registry.url": "https://u:s3cret@reg:80x"}}, r'config."schema.registry.url": no address'),
    ],
)
def test_settings_of_a_pipeline_that_maps_no_ids_any_more(tmp_path: Path, section: dict[str, Any], said: str) -> None:
    """Its checks ask the registries about what was copied before."""
    whole = {"config": {"schema.registry.url": "https://reg"}, **section}
    pipeline = load_text(tmp_path, changed({"source/registry": whole}))
    with pytest.raises(Refused, match=said) as refused:
        open_registry(pipeline, "source")
    assert "s3cr" not in str(refused.value)


def test_a_registry_that_is_not_well_is_waited_for(answers: dict[str, tuple[int, str]]) -> None:
    answers["GET"] = (503, '{"error_code": 50300, "message": "starting"}')
    with pytest.raises(RegistryUnreachable, match="answers 503: starting"):
        registry(answers).schema(1)


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_number_that_is_no_id_is_not_found_whatever_the_registry_calls_that(
    answers: dict[str, tuple[int, str]], status: int
) -> None:
    """Waited for, one record that only looks like one with a schema would hold up all topics of its slot for ever."""
    answers["GET"] = (status, '{"error_code": 42200, "message": "not an id"}')
    with pytest.raises(SchemaNotFound, match="does not have schema 2147483647: not an id"):
        registry(answers).schema(2**31 - 1)


@pytest.mark.parametrize("schema_id", [2**31, 2**32 - 1])
def test_a_number_above_all_ids_is_not_found_and_not_asked_for(
    answers: dict[str, tuple[int, str]], schema_id: int
) -> None:
    """Some registries answer in the words of their web framework, which might as well be a wrong address."""
    answers["GET"] = (404, '{"error_code": 0, "message": "RESTEASY003870: Unable to extract parameter"}')
    with pytest.raises(SchemaNotFound, match=f"does not have schema {schema_id}: no id is above 2147483647"):
        registry(answers).schema(schema_id)


def test_a_registry_that_speaks_no_tls_is_not_waited_for(answers: dict[str, tuple[int, str]]) -> None:
    url = answers["url"][1].replace("http:", "https:")
    with pytest.raises(RegistryRefused, match="cannot be talked to over TLS"):
        ConfluentRegistry("target", {"url": url, "max.retries": 0}, {}).schema(1)


@pytest.mark.parametrize(
    ("alert", "error"),
    [(80, RegistryUnreachable), (48, RegistryRefused)],
    ids=["internal_error: it is not well", "unknown_ca: it does not trust us"],
)
def test_what_a_registry_says_over_tls(alert: int, error: type[Exception]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as client:
                client.recv(4096)
                client.sendall(bytes([21, 3, 3, 0, 2, 2, alert]))  # a fatal alert (RFC 8446, 6)

        threading.Thread(target=answer, daemon=True).start()
        settings = {"url": f"https://127.0.0.1:{server.getsockname()[1]}", "max.retries": 0}
        with pytest.raises(error):
            ConfluentRegistry("target", settings, {}).schema(1)


@pytest.mark.parametrize("body", ["<html>404 page not found</html>", '{"message": "no Route matched"}', '"gone"'])
@pytest.mark.parametrize("status", [404, 422])
def test_what_stands_before_a_registry_does_not_speak_for_it(
    answers: dict[str, tuple[int, str]], status: int, body: str
) -> None:
    """An ingress whose registry is just restarting: neither is a schema missing, nor does a subject not take it."""
    answers["GET"] = answers["POST"] = (status, body)
    for ask in (
        lambda: registry(answers).schema(1),
        lambda: registry(answers).versions("s"),
        lambda: registry(answers).register("s", LONG),
    ):
        with pytest.raises(RegistryUnreachable, match=rf"answers {status}: .*Without an error code.* address right"):
            ask()


def test_something_else_that_answers_is_no_registry(answers: dict[str, tuple[int, str]]) -> None:
    answers["GET"] = (200, "<html>It works!</html>")
    with pytest.raises(RegistryUnreachable, match="schema 1, answers with what no registry says: is its address right"):
        registry(answers).schema(1)


def test_subjects_of_another_context_do_not_count(
    answers: dict[str, tuple[int, str]], caplog: pytest.LogCaptureFixture
) -> None:
    """Registered under the same name on the target, a schema would get an id of that context there."""
    both = '[{"subject": ":.other:orders-value", "version": 1}, {"subject": "orders-value", "version": 2}]'
    answers["GET"] = (200, both)
    assert registry(answers).places(7) == [SubjectVersion("orders-value", 2)]
    assert "schema 7 has subjects of another context too" in caplog.text


SHAPES = ["", "null", "[]", "[1]", "{}", '"id"', '{"id": null}', '{"id": "one"}', '{"id": []}']


@pytest.mark.parametrize("body", SHAPES)
def test_an_answer_without_what_was_asked_for_is_none(answers: dict[str, tuple[int, str]], body: str) -> None:
    """It is waited for, as one that is not well; what its client keeps of it must not outlast it."""
    asked = registry(answers)
    looking = ConfluentRegistry("target", {"url": answers["url"][1], "max.retries": 0}, {}, registers=False)
    for ask in (lambda: asked.register("s", LONG), lambda: looking.register("s", LONG), lambda: asked.schema(7)):
        answers["GET"] = answers["POST"] = (200, body)
        with pytest.raises(RegistryUnreachable, match="answers with what no registry says"):
            ask()
        answers["POST"] = answers["GET"] = (200, '{"id": 7, "version": 1, "schema": "\\"long\\""}')
        assert ask() in (7, LONG)


@pytest.mark.parametrize("body", ["", "null", "1", "[null]", '["x"]', '[{"subject": "s"}]'])
def test_a_list_of_something_else_is_none(answers: dict[str, tuple[int, str]], body: str) -> None:
    answers["GET"] = (200, body)
    for ask in (lambda: registry(answers).places(1), lambda: registry(answers).versions("s")):
        with pytest.raises(RegistryUnreachable, match="answers with what no registry says"):
            ask()


def test_what_is_not_there_and_what_is_refused(answers: dict[str, tuple[int, str]]) -> None:
    answers["GET"] = (404, '{"error_code": 40403, "message": "Schema 1 not found"}')
    answers["POST"] = (409, '{"error_code": 409, "message": "incompatible"}')
    with pytest.raises(SchemaNotFound, match=r"does not have schema 1: Schema 1 not found \(error code 40403\)"):
        registry(answers).schema(1)
    assert registry(answers).versions("s") == []
    with pytest.raises(SchemaRefused, match="s: incompatible"):
        registry(answers).register("s", LONG)


def test_a_registry_that_is_being_imported_into_refuses_new_schemas(answers: dict[str, tuple[int, str]]) -> None:
    """Confluent's, in mode IMPORT, as a target that gets the source's `_schemas` is: it is not waited for."""
    answers["POST"] = (422, '{"error_code": 42205, "message": "Subject s is not in read-write mode"}')
    with pytest.raises(SchemaRefused, match=r"s: Subject s is not in read-write mode \(error code 42205\)"):
        registry(answers).register("s", LONG)


def test_settings_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    settings = {"url": "https://registry:8081", "ssl.ca.location": str(tmp_path / "missing.pem")}
    with pytest.raises(Refused, match=r"the source's schema registry at https://registry:8081 cannot be used"):
        ConfluentRegistry("source", settings, {})


LOGIN = "user:s3cret@"


def with_login(url: str) -> str:
    return url.replace("://", f"://{LOGIN}")


@pytest.mark.parametrize("status", [401, 404, 409, 503])
def test_no_error_shows_the_password_of_a_url(answers: dict[str, tuple[int, str]], status: int) -> None:
    answers["GET"] = answers["POST"] = (status, '{"error_code": 40101, "message": "no"}')
    guarded = ConfluentRegistry("target", {"url": with_login(answers["url"][1]), "max.retries": 0}, {})
    for ask in (lambda: guarded.schema(1), lambda: guarded.register("s", LONG), lambda: guarded.version("s", 1)):
        with pytest.raises(Exception, match="no") as failed:
            ask()
        assert "s3cret" not in f"{failed.value} {vars(failed.value)} {guarded}"
    assert str(guarded) == f"the target's schema registry at {answers['url'][1]}"


def test_a_registry_that_does_not_answer_is_named_without_its_password(
    answers: dict[str, tuple[int, str]], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for url in (f"http://{LOGIN}127.0.0.1:{port}", with_login(answers["url"][1].replace("http:", "https:"))):
        with pytest.raises((RegistryUnreachable, RegistryRefused)) as failed:
            ConfluentRegistry("source", {"url": url, "max.retries": 0}, {}).schema(1)
        assert "s3cret" not in str(failed.value)
    settings = {"url": f"https://{LOGIN}registry", "ssl.ca.location": str(tmp_path / "missing.pem")}
    with pytest.raises(Refused) as refused:
        ConfluentRegistry("source", settings, {})
    assert "s3cret" not in str(refused.value)
    with pytest.raises(Refused, match=r"login in its URL and one in basic\.auth\.user\.info") as twice:
        ConfluentRegistry("source", {"url": f"https://{LOGIN}registry", "basic.auth.user.info": "a:hidden"}, {})
    assert "s3cret" not in str(twice.value)
    assert "hidden" not in str(twice.value)


@pytest.mark.parametrize(
    ("url", "shown", "login"),
    [
        ("https://registry:8081", "https://registry:8081", None),
        ("https://user:s3cret@registry:8081/api", "https://registry:8081/api", "user:s3cret"),
        ("http://u:p%40%2F@a, http://u:p@b:1", "http://a,http://b:1", "u:p@/"),
        ("https://a,https://u:p@b", "https://a,https://b", "u:p"),
        ("https://u:s3,cr/e t@a,https://b", "https://a,https://b", "u:s3,cr/e t"),
        ("https://token@a", "https://a", "token:"),
    ],
)
def test_addresses_without_logins(url: str, shown: str, login: str | None) -> None:
    assert address_of(url) == Address(shown, login)


@pytest.mark.parametrize("addresses", [1, 2, 3])
def test_a_request_is_over_within_eight_seconds_however_many_addresses_do_not_answer(addresses: int) -> None:
    client: Any = ConfluentRegistry("source", {"url": ",".join(["http://registry"] * addresses)}, {})._client
    client = client._rest_client
    assert client.timeout * (client.max_retries + 1) * addresses == pytest.approx(8.0)
