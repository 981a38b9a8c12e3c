"""Reads which topics are paused, for whoever does not follow the assignment topic anyway."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.pause_records import Pause
from k2k_assets.core.errors import K2KError, NotAllowed, Refused
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.control")


def read_pauses(pipeline: Pipeline, target: Cluster) -> Mapping[str, Pause]:
    """The paused source topics; none if the assignment topic does not exist.

    Raises:
        K2KError: The assignment topic cannot be read.
    """
    if not target.describe([pipeline.coordination.assignment.topic]):
        return {}
    with AssignmentTail(pipeline, target) as tail:
        return tail.catch_up().paused


class PauseReader:
    """Reads the paused topics again and again, with one client. Who may not read them is told so once.

    Args:
        pipeline: Names group and topic.
        target: The target cluster.
    """

    def __init__(self, pipeline: Pipeline, target: Cluster) -> None:
        self._pipeline, self._target = pipeline, target
        self._tail: AssignmentTail | None = None
        self._is_told = False

    def read(self) -> Mapping[str, Pause]:
        """The paused source topics; none if they cannot be read."""
        try:
            if self._tail is None:
                if not self._target.describe([self._pipeline.coordination.assignment.topic]):
                    return {}
                self._tail = AssignmentTail(self._pipeline, self._target)
            return self._tail.catch_up().paused
        except (NotAllowed, Refused) as error:
            self._tell(error)
            self.close()
            return {}

    def close(self) -> None:
        """Closes the client."""
        if self._tail is not None:
            self._tail.close()
            self._tail = None

    def _tell(self, error: K2KError) -> None:
        if not self._is_told:
            self._is_told = True
            log.info("which topics are paused is not known: %s", error)
