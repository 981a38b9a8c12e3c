"""Reads the settings behind the fingerprints in mapping records from the assignment topic."""

from __future__ import annotations

import logging

from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.core.errors import Refused
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.checks")


def noted_settings(pipeline: Pipeline, target: Cluster) -> dict[str, CopySettings]:
    """All settings under which a pipeline's group has copied, and the present ones, by fingerprint.

    Settings that only a newer release understands are left out. If the principal may not read the topic, only the
    present settings are returned.

    Raises:
        ClusterUnreachable: The target does not answer.
    """
    today = CopySettings.of(pipeline)
    known = today.by_fingerprint
    topic = pipeline.coordination.assignment.topic
    try:
        if topic not in target.describe([topic]):
            return known
        with AssignmentTail(pipeline, target) as tail:
            noted = tail.catch_up().settings
    except Refused as error:
        log.warning("copies under other settings than those of today are not compared: %s", error)
        return known
    for each in noted.values():
        if found := CopySettings.parse(each):
            known |= found.by_fingerprint
    return known
