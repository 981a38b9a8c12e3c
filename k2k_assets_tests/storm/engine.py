"""`python -m k2k_assets_tests.storm.engine FILE CORES MISHAP`: as `k2k start -f FILE`, on processes instead of Spark.

The engine, its driver and its signals are the real ones. A slot starts in a tenth of a
second, so short storms need no JVM.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from k2k_assets.cli.signals import run_aside, stop_on_signals
from k2k_assets.core.errors import K2KError
from k2k_assets.pipeline import load_pipeline
from k2k_assets.replication.driver.replicate import replicate_with
from k2k_assets.replication.extent import Continuous
from k2k_assets_tests.support.copies.slot_processes import SlotProcesses
from k2k_assets_tests.support.copies.unlucky import Mishap


def main() -> int:
    """Runs a pipeline until it is stopped; returns the exit code that `k2k start` would have."""
    path, cores, mishap = Path(sys.argv[1]), int(sys.argv[2]), Mishap(**json.loads(sys.argv[3]))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    runner = SlotProcesses(mishap=mishap)
    with mishap.clocked(), stop_on_signals() as stop:
        try:
            run_aside(replicate_with, runner, cores, load_pipeline([path]), Continuous(), stop=stop)
        except K2KError as error:
            print(f"Error: {error}", file=sys.stderr, flush=True)
            return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
