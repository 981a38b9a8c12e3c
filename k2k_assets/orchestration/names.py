"""Makes every name that Dagster sees: asset keys, groups, ops, outputs, inputs, jobs, sensors, checks, resources.

Names that may contain only `[A-Za-z0-9_]` come from the pipeline's name through `label`, and within an op through
`k2k_assets.core.naming`. So pipelines `my-pipeline` and `my_pipeline`, or topics `a.b` and `a-b`, have different names.
No name depends on other pipelines or topics, because Dagster stores a sensor's state under its name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple
from urllib.parse import quote

from dagster import AssetKey

from k2k_assets.core.naming import escape

SENSOR_NAME = "k2k_replication_sensor"
OFFSET_SENSOR_NAME = "k2k_offset_sync_sensor"
# The groups of a pipeline end in a word of `_GROUPS`, so they differ from these.
BROKEN_FILES_GROUP = "k2k_broken_files"
MAPPER_FILES_GROUP = "k2k_mapper_files"
GROUP_CHECK = "resumes_exactly"
TOPIC_CHECK = "copies_on"
SETTINGS_CHECK = "as_configured"
FRESHNESS_CHECK = "keeps_up"
PIPELINE_TAG = "k2k/pipeline"
SYNC_TAG = "k2k/sync"
MAPPINGS_TAG = "k2k/mappings"
OFFSET_SYNC_TAG = "k2k/offset_sync"
# Each run of a pipeline's jobs has one of these tags, with the pipeline's name.
RUN_TAGS = (PIPELINE_TAG, SYNC_TAG, MAPPINGS_TAG, OFFSET_SYNC_TAG)
MAINTENANCE_TAGS = {"k2k/maintenance": "history"}


class MaintenanceNames(NamedTuple):
    """The names of a maintenance job, of its schedule and of its op."""

    job: str
    schedule: str
    op: str


COMMON_MAINTENANCE = MaintenanceNames("k2k_maintenance_job", "k2k_maintenance_schedule", "k2k_delete_old_history")
"""Those for all pipelines of a folder."""

_PLAIN = re.compile(r"^[A-Za-z0-9]+(?:[_.-][A-Za-z0-9]+)*$")
_UNDERSCORES = str.maketrans({"-": "__", ".": "___"})
# Suffixes of names, all different, because ops and jobs of a code location need different names in Dagster.
_OPS = {
    "sources": "sources",
    "topics": "copy",
    "commit_log": "positions",
    "offset_mappings": "mappings",
    "consumer_groups": "groups",
    "group_positions": "group_table",
}
_KEY_PART = re.compile(r"^(?!k2k\.)[A-Za-z0-9_.-]+$")


def label(name: str) -> str:
    """`name` in letters, digits and underscores, readable if possible; different names stay different.

    `my_orders` stays as it is, `my-orders` is `my__orders`, `my.orders` is `my___orders`. If these signs are not single
    between letters and digits, the name is escaped after four underscores, which other names never have.
    """
    return name.translate(_UNDERSCORES) if _PLAIN.match(name) else f"k2k____{escape(name)}"


def key_part(name: str) -> str:
    """`name` as one part of an asset key: unchanged if possible, else escaped; different names stay different."""
    return name if _KEY_PART.match(name) else f"k2k.{escape(name)}"


def broken_file_key(file_name: str) -> AssetKey:
    """The asset for a pipeline file that cannot be used."""
    # No key of a pipeline has such a second part, because a file's name ends in .yaml or .yml.
    return AssetKey(["broken_pipeline_files", key_part(file_name)])


def mapper_file_key(file_name: str) -> AssetKey:
    """The asset for a file that is only for the offset mapper."""
    return AssetKey(["offset_mapper_files", key_part(file_name)])


def broken_file_op(file_name: str) -> str:
    """The op of `broken_file_key`."""
    return f"{label(file_name)}_file"


def _pattern_part(pattern: str) -> str:
    return quote(pattern, safe="^$.*+?()[]{}|,-_ ")


def _check_names(check: str, keys: Mapping[str, AssetKey]) -> dict[str, str]:
    """The name of a check on each of some assets: the plain name, unless Dagster would give two outputs one name."""
    outputs = {name: key.to_python_identifier() for name, key in keys.items()}
    times = Counter(outputs.values())
    return {name: check if times[output] == 1 else f"{check}_{escape(name)}" for name, output in outputs.items()}


class AssetNames:
    """The names of one pipeline.

    Args:
        pipeline: The pipeline's `name`.
    """

    def __init__(self, pipeline: str) -> None:
        self.pipeline = pipeline
        self._prefix = key_part(pipeline)
        self._label = label(pipeline)

    @property
    def source_group(self) -> str:
        """The asset group of the source topics."""
        return f"{self._label}_source"

    @property
    def copy_group(self) -> str:
        """The asset group of the replicated topics."""
        return f"{self._label}_copy"

    @property
    def offsets_group(self) -> str:
        """The asset group of the commit log and the offset mappings."""
        return f"{self._label}_offsets"

    @property
    def consumer_groups_group(self) -> str:
        return f"{self._label}_groups"

    @property
    def job(self) -> str:
        """The job that materializes everything of the pipeline."""
        return f"{self._label}_materialize"

    @property
    def sync_job(self) -> str:
        """The job that copies until the next run of it takes over."""
        return f"{self._label}_sync"

    @property
    def mappings_job(self) -> str:
        """The job that updates the offset mappings and checks them."""
        return f"{self._label}_index"

    @property
    def offset_sync_job(self) -> str:
        """The job that materializes only the consumer groups."""
        return f"{self._label}_translate"

    @property
    def maintenance(self) -> MaintenanceNames:
        """The maintenance job of this pipeline alone."""
        schedule = f"{COMMON_MAINTENANCE.schedule}_{self._label}"
        return MaintenanceNames(f"{self._label}_maintenance", schedule, f"{self._label}_maintain")

    @property
    def resource(self) -> str:
        """The key of the pipeline's Spark resource."""
        return f"{self._label}_spark"

    @property
    def tags(self) -> dict[str, str]:
        """The tags of the pipeline's runs."""
        return {PIPELINE_TAG: self.pipeline}

    @property
    def sync_tags(self) -> dict[str, str]:
        """The tags of runs that copy until the next one takes over."""
        return {SYNC_TAG: self.pipeline}

    @property
    def mappings_tags(self) -> dict[str, str]:
        """The tags of runs that only update the offset mappings."""
        return {MAPPINGS_TAG: self.pipeline}

    @property
    def offset_sync_tags(self) -> dict[str, str]:
        """The tags of runs that only materialize consumer groups, also beside a run that copies."""
        return {OFFSET_SYNC_TAG: self.pipeline}

    @property
    def sensor(self) -> str:
        """The replication sensor."""
        return f"{SENSOR_NAME}_{self._label}"

    @property
    def offset_sensor(self) -> str:
        """The offset sync sensor."""
        return f"{OFFSET_SENSOR_NAME}_{self._label}"

    # -- asset keys ---------------------------------------------------------------------------------------------

    def source_key(self, topic: str) -> AssetKey:
        """The external asset of a source topic."""
        return AssetKey([self._prefix, "source", key_part(topic)])

    def topic_key(self, topic: str) -> AssetKey:
        """The replicated topic, under the name of its source topic."""
        return AssetKey([self._prefix, "topics", key_part(topic)])

    def undiscovered_key(self, selection: str) -> AssetKey:
        """The single asset for all topics before they are discovered.

        Args:
            selection: The pattern in the pipeline file.
        """
        return AssetKey([self._prefix, "topics", _pattern_part(selection)])

    def consumer_group_key(self, group: str) -> AssetKey:
        """The translated consumer group."""
        return AssetKey([self._prefix, "consumer_groups", key_part(group)])

    def undiscovered_groups_key(self, selection: str) -> AssetKey:
        """The single asset for all consumer groups before they are discovered.

        Args:
            selection: The pattern in the pipeline file.
        """
        return AssetKey([self._prefix, "consumer_groups", _pattern_part(selection)])

    def owns(self, key: AssetKey) -> bool:
        """Whether a key belongs to this pipeline, also for a topic or group that is not shown any more."""
        if list(key.path[:1]) != [self._prefix]:
            return False
        kinds = {"source", "topics", "consumer_groups"}
        alone = (self.commit_log_key, self.offset_mappings_key, self.group_positions_key)
        return key in alone or (len(key.path) == 3 and key.path[1] in kinds)

    def owns_group(self, key: AssetKey) -> bool:
        """Whether a key is that of a consumer group of this pipeline, also of one that is not shown any more."""
        return self.owns(key) and key.path[1] == "consumer_groups"

    @property
    def commit_log_key(self) -> AssetKey:
        """The committed positions."""
        return AssetKey([self._prefix, "commit_log"])

    @property
    def offset_mappings_key(self) -> AssetKey:
        """The mapping index."""
        return AssetKey([self._prefix, "offset_mappings"])

    @property
    def group_positions_key(self) -> AssetKey:
        """The positions of all consumer groups."""
        return AssetKey([self._prefix, "group_positions"])

    # -- ops, outputs, inputs -----------------------------------------------------------------------------------

    def op(self, what: str, number: int = 1) -> str:
        """The op of an asset, which is the step on the page of a run.

        Args:
            what: `sources`, `topics`, `commit_log`, `offset_mappings`, `consumer_groups` or `group_positions`.
            number: Number of the op among several of the same kind, from 1.
        """
        return f"{self._label}_{_OPS[what]}" + (f"_{number}" if number > 1 else "")

    @property
    def mapping_checks_op(self) -> str:
        """The op that runs the checks on the offset mappings."""
        return f"{self._label}_check_offset_mappings"

    @property
    def topic_checks_op(self) -> str:
        """The op that runs the checks on the replicated topics."""
        return f"{self._label}_check_copies_on"

    def output(self, topic: str) -> str:
        """The output of the topics op for one topic."""
        return f"topic_{escape(topic)}"

    def group_output(self, group: str) -> str:
        """The output of the consumer groups op for one group."""
        return f"group_{escape(group)}"

    def group_checks(self, groups: Collection[str]) -> dict[str, str]:
        """The check on each consumer group.

        Dagster names a check's output after the asset's key, with `_` for `.` and `-`. If two groups would have the
        same name, the groups become a part of their checks' names.

        Args:
            groups: All groups that the definitions show.
        """
        return _check_names(GROUP_CHECK, {group: self.consumer_group_key(group) for group in groups})

    def topic_checks(self, topics: Collection[str]) -> dict[str, str]:
        """The check on each replicated topic, named like those on groups.

        Args:
            topics: All topics that the definitions show.
        """
        return _check_names(TOPIC_CHECK, {topic: self.topic_key(topic) for topic in topics})

    def settings_checks(self, topics: Collection[str]) -> dict[str, str]:
        """The check on the settings of each replicated topic, named as those on groups are.

        Args:
            topics: All that are shown.
        """
        return _check_names(SETTINGS_CHECK, {topic: self.topic_key(topic) for topic in topics})

    def freshness_checks(self, topics: Collection[str]) -> dict[str, str]:
        """The check on how late each replicated topic is, named like those on groups.

        Args:
            topics: All topics that the definitions show.
        """
        return _check_names(FRESHNESS_CHECK, {topic: self.topic_key(topic) for topic in topics})

    def source_input(self, topic: str) -> str:
        """The input through which the topics op depends on a source topic."""
        return f"source_{escape(topic)}"

    def topic_input(self, topic: str) -> str:
        """The input through which another op depends on a replicated topic."""
        return f"topic_{escape(topic)}"
