"""Checks in bounded time that a Spark Connect server can be reached; pyspark itself would try for ten minutes."""

from __future__ import annotations

CONNECT_SCHEME = "sc://"

# Longest wait for a server that is just starting.
_SECONDS = 15.0


def await_connect_server(remote: str) -> None:
    """Waits until a connection succeeds that is made like pyspark's own, with its TLS and through the same proxies.

    Args:
        remote: A Spark Connect URL.

    Raises:
        TimeoutError: No connection within some seconds.
        OSError: The URL is not valid.
    """
    # Imported here, because these imports take half a second and nothing else needs them.
    import grpc
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    try:
        channel = DefaultChannelBuilder(remote).toChannel()
    except ValueError as error:  # some of pyspark's own errors are subclasses
        raise OSError(str(error)) from None
    try:
        grpc.channel_ready_future(channel).result(timeout=_SECONDS)
    except grpc.FutureTimeoutError:
        raise TimeoutError(f"no connection in {_SECONDS:g} seconds") from None
    finally:
        channel.close()
