"""The mapping index: merged runs and covered ranges in segments of Parquet, extended by a PySpark job.

```
 mapping topic ──fold──> segment ──merge──> larger segment         written once, never changed
                            │ portions: the valid part of each segment, by source partition
                            v
                        version <── manifest.json, switched last
```

An update reads the new records of the mapping topic and adds a segment. It changes no older segment, but now and then
it merges small neighbours into a large one. Runs that a re-copy has replaced are cut off in the table of portions only.
A crash anywhere leaves the old version; a reader that has opened a version can use it until the index was updated
twice. The index can be built anew from the mapping topic, as long as the topic keeps its records.

`update_index` and `MappingIndex` work with Spark; `IndexReader` looks up without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from k2k_assets.mapping.index.manifest import IndexUnusable

if TYPE_CHECKING:
    from k2k_assets.mapping.index.build import MappingIndex, update_index
    from k2k_assets.mapping.index.read import IndexReader, IndexReplaced

_MODULES = {
    "MappingIndex": "k2k_assets.mapping.index.build",
    "update_index": "k2k_assets.mapping.index.build",
    "IndexReader": "k2k_assets.mapping.index.read",
    "IndexReplaced": "k2k_assets.mapping.index.read",
}
__all__ = ["IndexReader", "IndexReplaced", "IndexUnusable", "MappingIndex", "update_index"]


def __getattr__(name: str) -> Any:
    """Imports each name on first use: a look-up must not wait for the import of Spark, nor a sensor for Parquet."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
