"""An S3 server for tests that knows conditional writes: moto's, in memory, in this process, on a free port."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

BUCKET = "k2k-index"


@contextmanager
def conditional_s3_server() -> Iterator[dict[str, str]]:
    """Runs a server with one bucket; yields the variables for its clients."""
    # Here, because each process of a run of tests would take a second for it.
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = DomainDispatcherApplication(create_backend_app)
    # One request at a time: what a condition says is true until the object is written.
    server = make_server("127.0.0.1", 0, application, threaded=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="s3-server", daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        urlopen(Request(f"{address}/{BUCKET}", method="PUT"), timeout=30).close()
        yield {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        server.shutdown()
        thread.join(10)
