"""The process that Spark forks its Python workers from, with all that a slot needs imported once and shared by all.

Spark runs it as `python -m`, instead of its own. No thread may run in it when it forks.
"""

from __future__ import annotations

import gc
import os

# numpy's linear algebra, which nobody here needs, starts its threads at the import otherwise. So this module lies in a
# package that imports nothing.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> None:
    """Imports, then does what Spark's own daemon does."""
    from pyspark.daemon import manager

    import k2k_assets.spark.slot_task  # noqa: F401

    # What is shared with the workers stays shared: a collection would write to every object.
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
