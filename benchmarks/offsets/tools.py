"""What moves groups: this project (replicator and mapper) or MirrorMaker 2, each running for as long as it is held."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.driver_process import DriverProcess
from benchmarks.lab import Lab
from benchmarks.mirror_maker import HEAP, MODES, MirrorMaker, Mode
from benchmarks.offsets.plan import GROUPS, KINDS
from benchmarks.pipelines import DEFAULT, MASTER, Settings, write_pipeline
from k2k_assets.core.deadline import wait_until
from k2k_assets.sandbox import supervisor

Check = Callable[[], None]
"""Raises if the tool has ended by itself."""

_START_SECONDS = 120.0
_GRACE_SECONDS = 20.0
_TIMERS: dict[str, object] = {
    "offset-syncs.topic.location": "target",
    "emit.checkpoints.interval.seconds": 1,
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": 1,
    "refresh.groups.interval.seconds": 1,
    "groups": f"{GROUPS}.*",
}


@dataclass(frozen=True, slots=True)
class Tool:
    """One of them.

    Attributes:
        key: Its name on the command line.
        title: Its name in tables.
        prefix: What it puts before a topic's name on the target.
        run: Runs it: gives its check once the target's topics are there.
    """

    key: str
    title: str
    prefix: str
    run: Callable[[Lab], AbstractContextManager[Check]]


def _topics(prefix: str) -> set[str]:
    return {f"{prefix}{kind.topic}" for kind in KINDS}


@contextmanager
def _this_project(lab: Lab) -> Iterator[Check]:
    pipeline = _pipeline(lab, "k2k")
    with DriverProcess(lab.folder / "replicator.log") as driver:
        driver.start(pipeline, continuous=True)
        _await_topics(lab, "k2k.", driver.ensure_running)
        with _mapper(lab, pipeline) as ensure_mapping:

            def check() -> None:
                driver.ensure_running()
                ensure_mapping()

            yield check
        driver.stop()
        driver.result(_START_SECONDS)


def _pipeline(lab: Lab, run: str) -> Path:
    """The benchmark's usual pipeline, with both topics and the groups."""
    path = write_pipeline(lab, run, KINDS[0].topic, Settings(exactly_once=True, batch_size=DEFAULT))
    document = json.loads(path.read_text())
    document["replication"][0]["source"]["topic"] = [kind.topic for kind in KINDS]
    document["groups"] = {"consumerGroups": f"{GROUPS}.*", "pollInterval": "1 second"}
    document["index"] = {"path": str(lab.folder / "index")}
    path.write_text(json.dumps(document, indent=1))
    return path


@contextmanager
def _mapper(lab: Lab, pipeline: Path) -> Iterator[Check]:
    log = lab.folder / "mapper.log"
    command = [sys.executable, "-m", "k2k_assets.cli.offset_mapping", "start", "-f", str(pipeline)]
    # The sandbox's supervisor ends it when this process ends, however that happens.
    guard = [sys.executable, "-I", "-S", str(supervisor.__file__), str(log), str(_GRACE_SECONDS), ""]
    process = subprocess.Popen(
        [*guard, *command], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    )

    def check() -> None:
        if process.poll() is not None:
            words = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise RuntimeError(f"the mapper ended. Its last words:\n{words}")

    try:
        yield check
    finally:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_GRACE_SECONDS + 5)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait(_GRACE_SECONDS)


def _mirror_maker(alias: str, mode: Mode, most_lag: int) -> Tool:
    title = f"MirrorMaker 2, {mode.title.partition(' (')[0]}, offset.lag.max={most_lag}"
    settings = (*mode.settings, *((name, str(value)) for name, value in _TIMERS.items()))
    named = Mode(title, alias, (*settings, ("offset.lag.max", str(most_lag))))

    @contextmanager
    def run(lab: Lab) -> Iterator[Check]:
        with MirrorMaker(lab, alias, named, [re.escape(kind.topic) for kind in KINDS], {}) as mirror:
            _await_topics(lab, f"{alias}.", mirror.ensure_running)
            yield mirror.ensure_running

    return Tool(alias, title, f"{alias}.", run)


def _await_topics(lab: Lab, prefix: str, check: Check) -> None:
    def there() -> bool:
        check()
        return _topics(prefix) <= set(lab.target.topics())

    wait_until(there, _START_SECONDS, f"{sorted(_topics(prefix))} on the target", interval=0.5)


TOOLS = (
    Tool("k2k", "k2k-assets, exactly once", "k2k.", _this_project),
    _mirror_maker("mm2", MODES[1], 100),
    _mirror_maker("mm2-0", MODES[1], 0),
    _mirror_maker("mm2-once", MODES[0], 100),
)


def shown() -> list[str]:
    """All settings that matter, as lines."""
    words = ", ".join(f"`{name}={value}`" for name, value in _TIMERS.items())
    return [
        f"k2k-assets: replicator exactly once, continuous, Spark {MASTER}, batchSize {DEFAULT}, offset mapping on; "
        "`k2k-offset-mapping start` with `groups.pollInterval: 1 second`, no index yet; the rest default",
        f"MirrorMaker 2: dedicated mode, one node, {' '.join(HEAP)}, tasks.max=4, read_committed source, {words}, "
        "no heartbeats; the rest default (`offset.flush.interval.ms=60000`, timers 60 / 60 / 600 s are the defaults "
        "that 1 s replaces)",
    ]
