"""How much memory Python objects take, told by `tracemalloc`."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable


def in_a_fork(check: Callable[[], None]) -> None:
    """Runs a check that uses `tracemalloc` in a fork, which has no other threads.

    Before Python 3.12.10 `tracemalloc.stop` crashes the process where another thread allocates at the same moment, and
    in those that run tests clients of Kafka and Spark have left threads.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            check()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, "see what is captured"
