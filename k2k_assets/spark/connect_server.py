"""Whether a Spark Connect server can be reached, told in bounded time: pyspark itself would try for ten minutes."""

from __future__ import annotations

CONNECT_SCHEME = "sc://"

# A server that is just being started is waited for that long.
_SECONDS = 15.0


def await_connect_server(remote: str) -> None:
    """Waits until there is a connection, made as pyspark makes its own: with its TLS, through the same proxies.

    Args:
        remote: A Spark Connect URL.

    Raises:
        TimeoutError: There is none after some seconds.
        OSError: The URL is not one.
    """
    # Half a second of imports, for this alone.
    import grpc
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    try:
        channel = DefaultChannelBuilder(remote).toChannel()
    except ValueError as error:  # with some of pyspark's own among them
        raise OSError(str(error)) from None
    try:
        grpc.channel_ready_future(channel).result(timeout=_SECONDS)
    except grpc.FutureTimeoutError:
        raise TimeoutError(f"no connection in {_SECONDS:g} seconds") from None
    finally:
        channel.close()
