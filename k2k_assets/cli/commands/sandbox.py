"""`k2k sandbox up`: runs two clusters in the foreground, and writes a pipeline file for them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from k2k_assets.core.errors import K2KError
from k2k_assets.core.words import plural
from k2k_assets.sandbox import Broker, KafkaSandbox
from k2k_assets.sandbox.jars import DEFAULT_VERSION, VERSION_VARIABLE, kafka_versions
from k2k_assets.sandbox.pipeline_file import pipeline_text, write_pipeline_file
from k2k_assets.sandbox.principals import REPLICATOR
from k2k_assets.sandbox.security import ADMIN
from k2k_assets.sandbox.traffic import continuous_traffic, write_sample_traffic

_POLL_SECONDS = 0.5


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def sandbox() -> None:
    """Two real Kafka clusters on this machine, a source and a target, of one broker each."""


@sandbox.command()
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory that keeps the data for the next start. Without it everything is temporary.",
)
@click.option(
    "--pipeline-file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("sandbox.yaml"),
    show_default=True,
    help="File for a pipeline that replicates the sample topics.",
)
@click.option(
    "--sample-traffic/--no-sample-traffic",
    default=True,
    show_default=True,
    help="Write sample topics to the source, unless they exist.",
)
@click.option("--keep-writing", is_flag=True, help="Keep writing some records to the source until the end.")
@click.option(
    "--secure",
    is_flag=True,
    help="TLS, passwords (SCRAM), client certificates and ACLs; the pipeline's user may only read on the source.",
)
@click.option(
    "--registries",
    is_flag=True,
    help="A schema registry beside each cluster, whose ids differ; the pipeline maps schema ids. They begin empty, and "
    "a sample topic has schemas.",
)
@click.option(
    "--kafka-version",
    type=click.Choice(kafka_versions()),
    default=DEFAULT_VERSION,
    show_default=True,
    envvar=VERSION_VARIABLE,
    show_envvar=True,
    help="Version of both brokers.",
)
def up(
    directory: Path | None,
    pipeline_file: Path,
    sample_traffic: bool,
    keep_writing: bool,
    secure: bool,
    registries: bool,
    kafka_version: str,
) -> None:
    """Starts both clusters, and stops them at Ctrl-C or SIGTERM."""
    download = "Kafka, 45 MB, and a registry, 142 MB" if registries else "Kafka, 45 MB"
    click.echo(f"Starting two Kafka clusters (the first start on a machine downloads {download}) ...", err=True)
    with (
        _stop_signals() as stop,
        KafkaSandbox(directory, secure=secure, registries=registries, version=kafka_version) as clusters,
    ):
        write_pipeline_file(pipeline_file, pipeline_text(clusters))
        for broker in (clusters.source, clusters.target):
            click.echo("\n".join(_access_lines(broker) if secure else [f"{broker.role}  {broker.servers}"]))
        for role, registry in zip(("source", "target"), clusters.registries or (), strict=False):
            click.echo(f"{role}  schema registry  {registry.url}")
        if sample_traffic and not stop.is_set():
            _write_samples(clusters)
        click.echo(f"\nA pipeline between them is in {pipeline_file}. Run it with\n\n  k2k start -f {pipeline_file}\n")
        click.echo("Ctrl-C stops both clusters.")
        writer = threading.Thread(target=continuous_traffic, args=(clusters.source.admin_properties, stop))
        if keep_writing:
            writer.start()
        try:
            _wait(clusters, stop)
        finally:
            stop.set()
            if keep_writing:
                writer.join()


def _access_lines(broker: Broker) -> Iterator[str]:
    """The addresses of a secured broker, and the files with the credentials of its users; shows no secret."""
    security = broker.security
    rights = "may only read" if broker.role == "source" else "may copy topics and move groups"
    yield f"{broker.role}  {broker.servers}  SASL_SSL, SCRAM-SHA-512; {broker.mtls_servers}  SSL, client certificate"
    yield f"  {security.directory}:"
    yield f"  {security.authority_file.name:<14} certificate authority of the cluster"
    yield f"  {security.password_file(REPLICATOR).name:<14} password of the user {REPLICATOR}, who {rights}"
    yield f"  {security.certificate_file(REPLICATOR).name:<14} key and certificate of the same user"
    yield f"  {security.certificate_file(ADMIN).name:<14} key and certificate of {ADMIN}, who may do everything"


def _write_samples(clusters: KafkaSandbox) -> None:
    registry = clusters.registries[0].url if clusters.registries else None
    written = write_sample_traffic(clusters.source.admin_properties, registry=registry)
    if written:
        records, topics = plural(sum(written.values()), "record"), plural(len(written), "topic")
        click.echo(f"\n{records} in {topics} of the source:")
    for topic, count in written.items():
        click.echo(f"  {topic:<24} {count:>7}")


def _wait(clusters: KafkaSandbox, stop: threading.Event) -> None:
    while not stop.wait(_POLL_SECONDS):
        for broker in (clusters.source, clusters.target):
            if not broker.is_running():
                raise K2KError(f"The {broker.role} broker ended by itself. The end of its log:\n{broker.log_tail()}")


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Turns SIGINT and SIGTERM into an event; a second signal interrupts code that does not check the event."""
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
