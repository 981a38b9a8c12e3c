"""Data versions of topics, and what an event that is logged from inside a run has to say of them itself.

Dagster calls a copy synced when the data version that its materialization says it was made from is the newest one that
its source was observed with. Here both are made from offsets: the source's from where it ends, and the copy's from how
far of that it has come. Commit log and offset mappings have versions that change when what was said of a position could
change, not whenever positions move on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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

# Of an asset whose definition has none: then Dagster compares nothing with it.
_NO_CODE_VERSION = "none"


def version_of(offsets: Iterable[tuple[int, int]]) -> str:
    """The data version that stands for offsets.

    Args:
        offsets: Partition and offset of each partition.
    """
    words = ",".join(f"{partition}:{offset}" for partition, offset in sorted(offsets))
    return digest(words)


def routes_version(routes: Iterable[tuple[str, int, str]]) -> str:
    """The data version of a commit log: what is copied where, not how far.

    The mappings of what was copied do not change when more is: so what is made from the commit log, and from the
    mappings, is out of date when there is something new to be mapped, and not with each record.

    Args:
        routes: Source topic, partition and target topic of each partition.
    """
    words = ",".join(f"{topic}-{partition}>{target}" for topic, partition, target in sorted(routes))
    return digest(words)


def version_tags(version: str) -> dict[str, str]:
    """The tags of an observation."""
    return {DATA_VERSION_TAG: version}


def current_version(instance: dg.DagsterInstance, key: dg.AssetKey) -> str | None:
    """The data version that Dagster knows of an asset; None where it was never made."""
    record = instance.get_latest_data_version_record(key)
    version = extract_data_version_from_entry(record.event_log_entry) if record else None
    return version.value if version else None


def provenance_tags(version: str, code_version: str | None, inputs: Mapping[dg.AssetKey, str]) -> dict[str, str]:
    """The tags of a materialization.

    Args:
        version: Its data version.
        code_version: Of its asset; None if it has none.
        inputs: The data version of each asset that it was made from.
    """
    tags = {DATA_VERSION_TAG: version, DATA_VERSION_IS_USER_PROVIDED_TAG: "true"}
    # Without one Dagster does not look at the inputs: it goes by the times of the materializations.
    tags[CODE_VERSION_TAG] = _NO_CODE_VERSION if code_version is None else code_version
    for key, input_version in inputs.items():
        tags[get_input_data_version_tag(key)] = input_version
        tags[f"{INPUT_EVENT_POINTER_TAG_PREFIX}/{key.to_user_string()}"] = NULL_EVENT_POINTER
    return tags
