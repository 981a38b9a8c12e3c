"""What kind of storm."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from k2k_assets_tests.storm.faults import LEAVE_NO_SLEEPER
from k2k_assets_tests.storm.forms import Form
from k2k_assets_tests.storm.instances import Engine


@dataclass(frozen=True)
class Plan:
    """What kind of storm.

    Attributes:
        seconds: How long faults strike, in all.
        seed: Of every choice.
        exactly_once: The delivery mode.
        engine: What the instances run on.
        round_seconds: How long faults strike before the next calm.
        lasting: Seconds of what has to outlast time-outs, from and to.
        pause: Mean seconds between two faults.
        only: Names of faults; all if empty.
        aloud: Whether to tell what happens.
        stages: Whether the pipeline changes records.
        both_ways: Whether a second pipeline copies back what is written on the target.
        form: `transport.form` of the instances; "mixed": instances of either form take over from each other.
    """

    seconds: float
    seed: int
    exactly_once: bool = True
    engine: Engine = "processes"
    round_seconds: float = 120.0
    lasting: tuple[float, float] = (1.0, 26.0)
    pause: float = 3.0
    only: tuple[str, ...] = ()
    aloud: bool = False
    stages: bool = False
    both_ways: bool = False
    form: Form = "batches"

    @property
    def late_writers(self) -> bool:
        """Whether what a writer had sent may come behind its successor's records: at least once, if it can sleep."""
        return not self.exactly_once and not (self.only and LEAVE_NO_SLEEPER.issuperset(self.only))

    @property
    def marker(self) -> Literal["pipeline", "cluster"]:
        """What the marker of copies holds, where both directions are copied."""
        return random.Random(f"{self.seed}.marker").choice(("pipeline", "cluster"))
