"""A schema registry with Confluent's API, through Confluent's client."""

from __future__ import annotations

import json
import logging
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import httpx2 as httpx
from confluent_kafka.schema_registry import Metadata, RegisteredSchema, RuleSet, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry import Schema as ClientSchema
from confluent_kafka.schema_registry.error import OAuthTokenError, SchemaRegistryError

from k2k_assets.core.errors import Refused
from k2k_assets.pipeline.clients.client_properties import ClusterRole
from k2k_assets.pipeline.clients.registry_address import address_of
from k2k_assets.registry.contexts import context_of, subject_in
from k2k_assets.registry.schemas import (
    Reference,
    RegistryRefused,
    RegistryUnreachable,
    Schema,
    SchemaNotFound,
    SchemaRefused,
    SubjectVersion,
)

log = logging.getLogger("k2k.registry")

T = TypeVar("T")

# Slots write heartbeats between requests, and others take over after fifteen seconds of silence: within so many a
# request has to be over, with its second attempt, or with one at each of several addresses.
_SECONDS, _ATTEMPTS, _WAIT_MS = 8.0, 2, 200
_NOT_FOUND = 404
_PAUSES_AFTER_REFUSAL = (0.05, 0.25)
# What a registry says of a schema, not of itself: bad request, incompatible, cannot be processed.
_REFUSED = (400, 409, 422)
# Ids are signed numbers of four bytes, in every registry's wire format; payloads that only look framed hold others.
_MOST_ID = 2**31 - 1
# What it says of who asks.
_NOT_LET_IN = (401, 403)
# Of TLS: one side does not trust the other, or speaks something else. A connection that breaks says other words.
_TLS_REFUSALS = ("CERTIFICATE", "ALERT", "WRONG_VERSION_NUMBER")
# What a server says over TLS that is not well itself: that passes.
_TLS_TROUBLE = "ALERT_INTERNAL_ERROR"
# What stands before a registry says so of all that it is asked for: to believe it would lose versions, or stop topics.
_NO_CODE = ". Without an error code that is no registry's own word: is its address right, and is it up behind it?"
# A property that registries set themselves, to the number of the version.
_VERSION_PROPERTY = "confluent:version"
# Of who gives out tokens (RFC 6749).
_TOKEN_REFUSALS = ("invalid_client", "invalid_grant", "unauthorized_client", "invalid_scope")


class ConfluentRegistry:
    """A registry, or the context of one that its URL names: its subjects are given and taken without that.

    Args:
        role: Names it in errors.
        settings: Of Confluent's Python client: `url`, `basic.auth.user.info`, `ssl.ca.location` and so on. A login in
            the URL is sent, and never shown: the client is not given it with the URL, which it puts into its words.
        headers: Sent with each request.
        registers: Whether it may register schemas. Otherwise only those are found that the registry has.
        normalizes: Whether the registry is asked to normalize schemas.
    """

    def __init__(
        self,
        role: ClusterRole,
        settings: Mapping[str, object],
        headers: Mapping[str, str],
        *,
        registers: bool = True,
        normalizes: bool = False,
    ) -> None:
        self._registers, self._normalizes = registers, normalizes
        self._role = role
        self._url, login = address_of(str(settings.get("url", "")))
        addresses = self._url.count(",") + 1
        self._context, *others = {context_of(url) for url in self._url.split(",")}
        if others:
            raise Refused(f"{self} has addresses of several contexts. See {role}.registry.config")
        attempts = _ATTEMPTS if addresses == 1 else 1
        timeout = _SECONDS / (addresses * attempts)
        own = {"timeout": timeout, "max.retries": attempts - 1, "retries.wait.ms": _WAIT_MS}
        given = {**own, **settings, "url": self._url}
        if login is not None:
            if "basic.auth.user.info" in settings:
                raise Refused(f"{self} has a login in its URL and one in basic.auth.user.info. Take one of them away")
            given["basic.auth.user.info"] = login
        try:
            self._client = SchemaRegistryClient(given)
        except (OSError, TypeError, ValueError) as error:  # a file of certificates that is not there, for one
            raise Refused(f"{self} cannot be used: {error}. See {role}.registry.config") from None
        self._client._rest_client.session.headers.update(headers)

    def __str__(self) -> str:
        return f"the {self._role}'s schema registry at {self._url}"

    def schema(self, schema_id: int) -> Schema:
        what = f"schema {schema_id}"
        if schema_id > _MOST_ID:  # registries answer in many ways, some with no word of their own: they are not asked
            raise SchemaNotFound(f"{self} does not have {what}: no id is above {_MOST_ID}")
        try:
            return self._ask(lambda: self._from_client(self._client.get_schema(schema_id)), what, refusable=True)
        except _Refusal as refusal:  # four bytes may be a number that is no id: not every registry says 404 to that
            raise SchemaNotFound(f"{self} does not have {what}: {refusal}") from None

    def places(self, schema_id: int, deleted: bool = False) -> Sequence[SubjectVersion]:
        def ask() -> list[SubjectVersion]:
            found = self._client.get_schema_versions(schema_id, deleted=deleted)
            return [SubjectVersion(str(at.subject), _number(at.version)) for at in found]

        try:
            found = self._ask(ask, f"versions of schema {schema_id}")
        except SchemaNotFound:
            return []
        own = [at._replace(subject=subject) for at in found if (subject := self._own(at.subject)) is not None]
        if len(own) < len(found):
            log.warning("%s: schema %d has subjects of another context too, which do not count", self, schema_id)
        return sorted(own)

    def versions(self, subject: str) -> Sequence[int]:
        try:
            return self._ask(lambda: sorted(map(int, self._client.get_versions(subject))), f"subject {subject}")
        except SchemaNotFound:
            return []

    def version(self, subject: str, version: int) -> Schema:
        what = f"version {version} of subject {subject}"
        return self._ask(
            lambda: self._from_client(self._client.get_version(subject, version, deleted=True).schema), what
        )

    def register(self, subject: str, schema: Schema) -> int:
        try:
            if not self._registers:
                return self.id_of(subject, schema)
            return self._register(subject, schema)
        except (SchemaNotFound, _Refusal) as error:
            raise SchemaRefused(subject, str(error)) from None

    def _register(self, subject: str, schema: Schema) -> int:
        """A refusal is believed when it comes again.

        Some registries refuse the first version of a subject while somebody else registers it: another slot, mostly.
        """
        for pause in _PAUSES_AFTER_REFUSAL:
            try:
                return self._register_once(subject, schema)
            except _Refusal:
                time.sleep(pause)
        return self._register_once(subject, schema)

    def _register_once(self, subject: str, schema: Schema) -> int:
        asked, what = (_to_client(schema), self._normalizes), f"a schema of subject {subject}"
        return self._ask(lambda: _number(self._client.register_schema(subject, *asked)), what, refusable=True)

    def id_of(self, subject: str, schema: Schema) -> int:
        return self._look_up(subject, schema, lambda found: found.schema_id)

    def version_of(self, subject: str, schema: Schema) -> int:
        return self._look_up(subject, schema, lambda found: found.version)

    def _look_up(self, subject: str, schema: Schema, number: Callable[[RegisteredSchema], int | None]) -> int:
        what = f"a schema of subject {subject}"

        def ask() -> int:
            found = self._client.lookup_schema(subject, _to_client(schema), self._normalizes)
            if self._own(found.subject or subject) is None and self._own(subject) is not None:
                raise SchemaNotFound(f"{self} has {what} in another context only: {found.subject}")
            return _number(number(found))

        return self._ask(ask, what)

    def _own(self, subject: str) -> str | None:
        """A subject without the context that is asked; None if it is of another one."""
        return subject_in(self._context, subject)

    def _from_client(self, schema: ClientSchema) -> Schema:
        if schema.schema_str is None:
            raise ValueError("no schema")
        references = tuple(
            Reference(str(r.name), self._own(str(r.subject)) or str(r.subject), int(r.version or 0))
            for r in schema.references or ()
        )
        metadata, rules = _as_text(schema.metadata), _as_text(schema.rule_set)
        return Schema(schema.schema_type or "AVRO", schema.schema_str, references, metadata, rules)

    def _refusal(self, words: str, may_pass: bool = False) -> RegistryRefused:
        return RegistryRefused(str(self), f"{words}. See {self._role}.registry.config", may_pass)

    def _ask(self, call: Callable[[], T], what: str, refusable: bool = False) -> T:
        """Asks the registry.

        Args:
            call: Asks, and takes from the answer what is wanted: an answer of another shape is no answer.
            what: What is asked for.
            refusable: Whether the registry may refuse what it is given.
        """
        try:
            return call()
        except SchemaRegistryError as error:
            status = error.http_status_code
            if _is_of_registry(error) and status == _NOT_FOUND:
                raise SchemaNotFound(f"{self} does not have {what}: {_message(error)}") from None
            if _is_of_registry(error) and refusable and status in _REFUSED:
                raise _Refusal(_message(error)) from None
            if status in _NOT_LET_IN:
                words = f"refuses the login or the request ({status}): {_message(error)}"
                raise self._refusal(words, may_pass=True) from None
            doubt = "" if _is_of_registry(error) else _NO_CODE
            raise RegistryUnreachable(f"{self}, asked for {what}, answers {status}: {_message(error)}{doubt}") from None
        except httpx.InvalidURL as error:
            raise self._refusal(f"cannot be asked: {error}") from None
        except (httpx.HTTPError, OAuthTokenError, OSError) as error:
            if why := _why_not_let_in(error):
                raise self._refusal(why) from None
            raise RegistryUnreachable(f"{self} does not answer: {_words_of(error)}") from None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self._client.clear_caches()  # it keeps what it was told, also without an id
            words = f"{self}, asked for {what}, answers with what no registry says: is its address right?"
            raise RegistryUnreachable(f"{words} ({error})") from None


def _words_of(error: Exception) -> str:
    """An error's words, unless they may show a header with its secrets: those of a request that is not even sent."""
    name = type(error).__name__
    return f"{name}: a header cannot be sent" if isinstance(error, httpx.LocalProtocolError) else str(error) or name


def _why_not_let_in(error: BaseException) -> str | None:
    """Why a connection, or a token, cannot be had with these settings; None: it may be had later."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError) and _is_refusal(str(cause).upper()):
            return f"cannot be talked to over TLS: {cause}"
        if getattr(cause, "error", None) in _TOKEN_REFUSALS:
            return f"needs a token, which its issuer refuses: {error}"
        cause = cause.__cause__ or cause.__context__
    return None


def _is_refusal(tls_error: str) -> bool:
    return _TLS_TROUBLE not in tls_error and any(word in tls_error for word in _TLS_REFUSALS)


class _Refusal(Exception):
    """A registry does not take what it was given."""


def _is_of_registry(error: SchemaRegistryError) -> bool:
    """Whether the registry itself answers: what stands before it, such as an ingress, has no error codes, or texts."""
    return isinstance(error.error_code, int) and error.error_code > 0


def _message(error: SchemaRegistryError) -> str:
    return f"{error.error_message} (error code {error.error_code})"


def _number(number: int | None) -> int:
    """An id or a version: an answer without one must not become any."""
    if number is None:
        raise ValueError("no id or version")
    return int(number)


def _to_client(schema: Schema) -> ClientSchema:
    references = [SchemaReference(r.name, r.subject, r.version) for r in schema.references]
    metadata = Metadata.from_dict(json.loads(schema.metadata)) if schema.metadata else None
    rules = RuleSet.from_dict(json.loads(schema.rules)) if schema.rules else None
    return ClientSchema(schema.text, schema.kind, references, metadata, rules)


def _as_text(given: Metadata | RuleSet | None) -> str:
    """The same text for the same metadata or rules, whichever registry gives them; empty if it says nothing of any."""
    said = given.to_dict() if given else {}
    found = _without_defaults(said)
    is_said = given is not None and _VERSION_PROPERTY not in (said.get("properties") or {})
    return json.dumps(found, sort_keys=True) if found or is_said else ""


def _without_defaults(given: Any) -> Any:
    """Without what registries may say or leave out: what is empty or false, and the number of the version."""
    if isinstance(given, list):
        return [_without_defaults(each) for each in given]
    if not isinstance(given, dict):
        return given
    found = {name: _without_defaults(value) for name, value in given.items() if name != _VERSION_PROPERTY}
    return {name: value for name, value in found.items() if value}
