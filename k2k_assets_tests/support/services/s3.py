"""An S3 server for tests: S3Proxy, which keeps objects in files, with a key, on a free port."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from k2k_assets.core.deadline import wait_until
from k2k_assets.java.find import find_java
from k2k_assets.sandbox.broker_settings import free_ports
from k2k_assets.sandbox.jars import fetch_jars

BUCKET = "state"
_JARS = Path(__file__).with_name("s3proxy-2.6.0.jars")
_SECONDS = 60.0
_KEY, _SECRET = "tests", "never printed"


@contextmanager
def s3_server() -> Iterator[tuple[dict[str, str], Path]]:
    """Runs a server with one bucket; yields the variables for its clients, and the folder that holds the objects.

    Raises:
        K2KError: Its jars cannot be downloaded.
    """
    jars, (port,) = fetch_jars(_JARS), free_ports(1)
    address = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="k2k-s3-") as name:
        folder = Path(name)
        bucket = folder / "data" / BUCKET
        bucket.mkdir(parents=True)
        settings = {
            "s3proxy.endpoint": address,
            "s3proxy.authorization": "aws-v4",
            "s3proxy.identity": _KEY,
            "s3proxy.credential": _SECRET,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(folder / "data"),
            # Of no use here, and asked for.
            "jclouds.identity": "-",
            "jclouds.credential": "-",
        }
        (folder / "s3proxy.conf").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [str(find_java()), "-Xmx128m", "-cp", f"{jars}/*", "org.gaul.s3proxy.Main"]
        server = subprocess.Popen(
            [*command, "--properties", str(folder / "s3proxy.conf")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda: server.poll() is not None or _answers(address), _SECONDS, "the S3 server")
            assert server.poll() is None, "the S3 server has ended"
            yield (
                {
                    "AWS_ENDPOINT_URL": address,
                    "AWS_ACCESS_KEY_ID": _KEY,
                    "AWS_SECRET_ACCESS_KEY": _SECRET,
                    "AWS_DEFAULT_REGION": "us-east-1",
                    # Of newer clients, which the server does not know.
                    "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
                    "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
                },
                bucket,
            )
        finally:
            server.terminate()
            server.wait(_SECONDS)


def _answers(address: str) -> bool:
    with suppress(HTTPError):  # it refuses requests without a key
        try:
            urlopen(address, timeout=2).close()
        except HTTPError:
            raise
        except OSError:
            return False
    return True
