"""The process that Spark forks its Python workers from, with all that a slot needs imported once and shared by all.

Spark runs it as `python -m`, instead of its own; `ready_daemon` runs it before. No thread may run in it when it forks.
"""

from __future__ import annotations

import gc
import os
import sys

from k2k_assets.spark.ready_daemon import hand_over, wait_to_be_asked

# numpy's linear algebra, which nobody here needs, starts its threads at the import otherwise. So this module lies in a
# package that imports nothing.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> None:
    """Imports, then does what Spark's own daemon does. Spark names the worker's module, `ready_daemon` a socket."""
    is_early = sys.argv[1].isdigit()
    if not is_early and hand_over():
        return
    from pyspark.daemon import manager

    import k2k_assets.spark.slot_task  # noqa: F401

    # What is shared with the workers stays shared: a collection would write to every object.
    gc.collect()
    gc.freeze()
    if not is_early or wait_to_be_asked():
        manager()


if __name__ == "__main__":
    main()
