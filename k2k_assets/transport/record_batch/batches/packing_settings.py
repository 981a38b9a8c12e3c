"""How records that have to be packed anew are packed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from k2k_assets.transport.record_batch.batches.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from k2k_assets.transport.record_batch.batches.compression import DEFAULT_LEVEL
from k2k_assets.transport.record_batch.errors import NotByBatches

JOINED_BYTES = 256 * 1024
_CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}


@dataclass(frozen=True, slots=True)
class PackingSettings:
    """How batches are packed.

    Attributes:
        batch_bytes: The largest batch that the target takes; one record may be larger.
        codec: Number of the compression; None: as the source has it.
        level: Its level, as librdkafka's `compression.level`.
        joined_bytes: Up to so many bytes of records become one batch where batches are joined.
    """

    batch_bytes: int
    codec: int | None = None
    level: int = DEFAULT_LEVEL
    joined_bytes: int = JOINED_BYTES


def packing_settings(properties: Mapping[str, object], batch_bytes: int) -> PackingSettings:
    """The settings that a user's producer settings mean.

    Args:
        properties: librdkafka names.
        batch_bytes: The largest batch that all target topics accept.

    Raises:
        NotByBatches: They name a compression that is not known here.
    """
    name = properties.get("compression.type", properties.get("compression.codec"))
    if name is not None and str(name) not in _CODECS:
        raise NotByBatches([f"compression.type: {name}"])
    own = int(str(properties.get("batch.size", JOINED_BYTES)))
    return PackingSettings(
        batch_bytes,
        None if name is None else _CODECS[str(name)],
        int(str(properties.get("compression.level", DEFAULT_LEVEL))),
        min(JOINED_BYTES, own, batch_bytes),
    )
