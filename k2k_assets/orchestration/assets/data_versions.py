"""Data versions of topics, and the tags with them for events that a run logs itself.

Dagster shows a copy as synced if its materialization names the newest observed data version of its source. Both
versions come from offsets and the topic's id: the source's from its end offsets, the copy's from the part of these that
is copied. So a topic that was created anew is another one, also where it ends at the same offsets.
Versions of the commit log and the offset mappings change when an earlier answer may be wrong, not whenever positions
move.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    INPUT_EVENT_POINTER_TAG_PREFIX,
    NULL_EVENT_POINTER,
    extract_data_version_from_entry,
    get_input_data_version_tag,
)

from k2k_assets.core.digest import digest

# Brokers before 2.8 give topics no ids, which the client shows as zeros. Then offsets alone make a version.
_NO_ID = frozenset({"", "AAAAAAAAAAAAAAAAAAAAAA"})
# The code version of an asset whose definition has none; Dagster then compares no code versions.
_NO_CODE_VERSION = "none"


def version_of(offsets: Iterable[tuple[int, int]], topic_id: str) -> str:
    """The data version for offsets.

    Args:
        offsets: Each partition and its offset.
        topic_id: Id of the source topic; empty if it is not known, or has none.
    """
    words = ",".join(f"{partition}:{offset}" for partition, offset in sorted(offsets))
    return digest(words if topic_id in _NO_ID else f"{topic_id} {words}")


def routes_version(routes: Iterable[tuple[str, int, str]]) -> str:
    """The data version of a commit log: which partitions are copied where, not how far.

    New records do not change the mappings of earlier ones. So the assets that depend on commit log and mappings are
    out of date only when a new partition is to be mapped, not after each record.

    Args:
        routes: Source topic, partition and target topic of each partition.
    """
    words = ",".join(f"{topic}-{partition}>{target}" for topic, partition, target in sorted(routes))
    return digest(words)


def version_tags(version: str) -> dict[str, str]:
    """The tags of an observation."""
    return {DATA_VERSION_TAG: version}


def current_version(instance: dg.DagsterInstance, key: dg.AssetKey) -> str | None:
    """The newest data version of an asset in Dagster; None if it was never materialized."""
    record = instance.get_latest_data_version_record(key)
    version = extract_data_version_from_entry(record.event_log_entry) if record else None
    return version.value if version else None


def current_versions(instance: dg.DagsterInstance, assets: Sequence[dg.AssetKey]) -> dict[dg.AssetKey, str]:
    """The data version of the newest materialization of each of some assets, as far as they have one."""
    found = {}
    for record in instance.get_asset_records(assets):
        newest = record.asset_entry.last_materialization_record
        version = extract_data_version_from_entry(newest.event_log_entry) if newest else None
        if version is not None:
            found[record.asset_entry.asset_key] = version.value
    return found


def provenance_tags(version: str, code_version: str | None, inputs: Mapping[dg.AssetKey, str]) -> dict[str, str]:
    """The tags of a materialization.

    Args:
        version: Its data version.
        code_version: Code version of its asset; None if it has none.
        inputs: Data version of each upstream asset.
    """
    tags = {DATA_VERSION_TAG: version, DATA_VERSION_IS_USER_PROVIDED_TAG: "true"}
    # Without a code version Dagster compares the times of the materializations instead of the inputs.
    tags[CODE_VERSION_TAG] = _NO_CODE_VERSION if code_version is None else code_version
    for key, input_version in inputs.items():
        tags[get_input_data_version_tag(key)] = input_version
        tags[f"{INPUT_EVENT_POINTER_TAG_PREFIX}/{key.to_user_string()}"] = NULL_EVENT_POINTER
    return tags
