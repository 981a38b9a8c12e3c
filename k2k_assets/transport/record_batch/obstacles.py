"""Why a pipeline cannot be copied by batches: its settings, and what the brokers of both clusters speak.

A slot finds out by itself, and goes on by records; this is for people who want to know before.
"""

from __future__ import annotations

from dataclasses import replace

from k2k_assets.core.errors import Refused
from k2k_assets.pipeline import Pipeline
from k2k_assets.transport.interface import SINK_SECONDS
from k2k_assets.transport.record_batch.errors import ConnectionLost, NotByBatches
from k2k_assets.transport.record_batch.wire.connection import BrokerConnection
from k2k_assets.transport.record_batch.wire.metadata_client import MetadataClient
from k2k_assets.transport.record_batch.wire.settings import Address, ConnectionSettings, settings_of
from k2k_assets.transport.record_batch.wire.tasks import Loop, Task
from k2k_assets.transport.record_batch.writing.broker_requirements import ensure_writable
from k2k_assets.transport.record_batch.writing.sink_settings import sink_settings_of

_SECONDS = 10.0
_MOST_BROKERS = 100


def in_settings(pipeline: Pipeline) -> list[str]:
    """Why the settings of a pipeline do not allow batches; none if they do."""
    reasons: list[str] = []
    for make in (_source_settings, _target_settings):
        try:
            make(pipeline)
        except NotByBatches as found:
            reasons += found.reasons
        except Refused:  # certificates that are not on this machine: the copy may run on another one
            pass
    return list(dict.fromkeys(reasons))


def in_brokers(pipeline: Pipeline) -> list[str]:
    """Why the brokers do not allow batches, as far as they answer; none if they do. The settings have to allow them."""
    source = _of_cluster("source", _source_settings(pipeline), writes=False)
    return [*source, *_of_cluster("target", _target_settings(pipeline), writes=True)]


def _source_settings(pipeline: Pipeline) -> ConnectionSettings:
    return settings_of(pipeline.client_properties("source", "consumer"))


def _target_settings(pipeline: Pipeline) -> ConnectionSettings:
    return sink_settings_of(pipeline.client_properties("target", "producer"), SINK_SECONDS).connection


def _of_cluster(role: str, settings: ConnectionSettings, writes: bool) -> list[str]:
    """Asks each broker of a cluster."""
    quick = replace(
        settings,
        setup_seconds=min(settings.setup_seconds, _SECONDS),
        answer_seconds=min(settings.answer_seconds, _SECONDS),
    )
    loop, cluster = Loop(), MetadataClient(quick)
    try:
        loop.complete(cluster.ask([]))
    except ConnectionLost as lost:
        return [f"{role}: {lost}"]
    except NotByBatches as found:
        return [f"{role}: {reason}" for reason in found.reasons]
    finally:
        cluster.close()
    reasons: list[str] = []
    unanswered = set(list(cluster.brokers.values())[:_MOST_BROKERS])

    def ask(address: Address) -> Task[None]:
        connection = BrokerConnection(address, quick)
        try:
            yield from connection.open()
            if writes:
                ensure_writable(connection)
        except NotByBatches as found:
            reasons.extend(f"{role}: {reason}" for reason in found.reasons)
        except ConnectionLost:
            pass  # one that is down now may be there when the copy begins
        finally:
            connection.close()
            unanswered.discard(address)

    for address in list(unanswered):
        loop.start(ask(address))
    loop.run(_SECONDS, lambda: not unanswered)
    loop.stop()
    return sorted(reasons)
