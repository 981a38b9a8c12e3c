"""What the fingerprints of settings in mapping records stand for: the assignment topic keeps it."""

from __future__ import annotations

import logging

from k2k_assets.control.assignment_tail import AssignmentTail
from k2k_assets.control.copy_settings import CopySettings
from k2k_assets.core.errors import Refused
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline

log = logging.getLogger("k2k.checks")


def noted_settings(pipeline: Pipeline, target: Cluster) -> dict[str, CopySettings]:
    """The settings under which a pipeline's group ever copied, by fingerprint, with those of today.

    Those that only a newer release understands are left out; all but those of today, if the topic may not be read.

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
