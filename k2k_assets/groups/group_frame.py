"""Makes the group metadata of transactional commits for any group, by replacing the name in the client's own frame."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from k2k_assets.core.errors import K2KError
from k2k_assets.kafka import clients


class GroupFrame:
    """Makes the `group_metadata` argument of `send_offsets_to_transaction` for any group.

    The client makes this argument only for the group of a consumer of its own, and its bytes change with releases. So
    this class takes it from a consumer that joins no group, and replaces the name in it.

    Args:
        properties: Consumer settings of the target, librdkafka names.

    Raises:
        K2KError: This release of the client has another frame format.
    """

    def __init__(self, properties: Mapping[str, object]) -> None:
        name = uuid.uuid4().hex
        consumer = clients.consumer({**properties, "group.id": name})
        try:
            frame = consumer.consumer_group_metadata()
        finally:
            consumer.close()
        parts = frame.split(name.encode()) if isinstance(frame, bytes) else []
        if len(parts) != 2:
            raise K2KError(
                "this release of confluent-kafka describes consumer groups in a form that is not known, so translated "
                "offsets cannot be committed; install one that pyproject.toml asks for"
            )
        self._before, self._after = parts

    def of(self, group: str) -> bytes:
        """The `group_metadata` argument for one group."""
        return self._before + group.encode() + self._after
