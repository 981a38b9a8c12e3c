"""The daemon from which Spark forks its Python workers; it imports everything that a slot needs once, for all workers.

Spark runs it with `python -m` instead of its own daemon; `ready_daemon.py` runs it earlier. No thread may run in it
when it forks.
"""

from __future__ import annotations

import gc
import os
import sys

from k2k_assets.spark.ready_daemon import hand_over, wait_to_be_asked

# Without this variable numpy's linear algebra, which is not used here, starts its threads at the import. It has to be
# set before that import: so this module lies in a package that imports nothing.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> None:
    """Imports, then works as Spark's own daemon. Spark gives it the worker's module, `ready_daemon.py` a socket."""
    is_early = sys.argv[1].isdigit()
    if not is_early and hand_over():
        return
    from pyspark.daemon import manager

    from k2k_assets.spark.slot_task import end_with_parent

    os.register_at_fork(after_in_child=end_with_parent)
    # Freeze all objects, so that memory stays shared with the workers: a garbage collection would write to each object.
    gc.collect()
    gc.freeze()
    if not is_early or wait_to_be_asked():
        manager()


if __name__ == "__main__":
    main()
