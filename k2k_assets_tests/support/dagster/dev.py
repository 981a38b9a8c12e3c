"""`dagster dev` as users run it: web server, code server and daemon, in separate processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from urllib.request import Request, urlopen

import dagster as dg
import psutil
from dagster_graphql import DagsterGraphQLClient

from k2k_assets import orchestration
from k2k_assets.core.deadline import wait_until
from k2k_assets.orchestration.names import AssetNames
from k2k_assets.orchestration.sensors.reloading import URL_VARIABLE
from k2k_assets.sandbox.broker_settings import free_ports

ROOT = Path(__file__).parents[3]


def make_folders(directory: Path) -> tuple[Path, Path]:
    """A folder for pipeline files, and a home of Dagster's with the settings that are shipped."""
    folder, dagster_home = directory / "pipelines", directory / "dagster"
    for made in (folder, dagster_home):
        made.mkdir()
    (dagster_home / "dagster.yaml").write_text((Path(orchestration.__file__).parent / "dagster.yaml").read_text())
    return folder, dagster_home


class DagsterDev:
    """`dagster dev` as a child process, with everything that it starts.

    Args:
        directory: For its log.
        environment: Variables of its own.
        names: Of the pipeline that it runs.
        command: Another one that runs it.
        place: Where the command is run.
    """

    def __init__(
        self,
        directory: Path,
        environment: dict[str, str],
        names: AssetNames,
        command: Sequence[str] = ("dagster", "dev", "-m", "k2k_assets.definitions"),
        place: Path = ROOT,
    ) -> None:
        self.names = names
        self.home = environment["DAGSTER_HOME"]
        (self.port,) = free_ports(1)  # none that the system gives to connections meanwhile
        environment = {**environment, URL_VARIABLE: f"http://127.0.0.1:{self.port}"}
        self._log = (directory / "dagster-dev.log").open("w+")
        program, *arguments = command
        tool = Path(sys.executable).with_name(program)
        self._process = subprocess.Popen(
            [str(tool), *arguments, "--host", "127.0.0.1", "--port", str(self.port)],
            cwd=place,
            env={**os.environ, **environment},
            stdout=self._log,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def await_answer(self) -> None:
        """Waits until the web server answers."""
        self.await_that(lambda: _answers(f"http://127.0.0.1:{self.port}/server_info"), 300, "dagster dev to answer")

    def await_that(self, condition: Callable[[], object], timeout: float, what: str) -> None:
        """Waits for something that `dagster dev` is to bring about; its log is in the error."""
        try:
            wait_until(lambda: condition() or self._process.poll() is not None, timeout, what, interval=0.5)
            assert self._process.poll() is None, "dagster dev has ended"
        except (TimeoutError, AssertionError) as error:
            raise AssertionError(f"{error}\n{self.log()[-8000:]}") from None

    def log(self) -> str:
        """All that it printed."""
        return Path(self._log.name).read_text()

    def failed_runs(self) -> list[str]:
        """What each run that failed says; more than one may have told its end."""
        with dg.DagsterInstance.from_config(self.home) as instance:
            failed = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE]))
            return [
                "; ".join(
                    str(entry.message)
                    for entry in instance.all_logs(run.run_id)
                    if entry.dagster_event and entry.dagster_event.is_failure
                )
                for run in failed
            ]

    def launch(self, job: str) -> str:
        """Launches a job as the UI does; returns the id of the run."""
        return DagsterGraphQLClient("127.0.0.1", port_number=self.port).submit_job_execution(job)

    def terminate(self, run_id: str) -> None:
        """Terminates a run as the UI's button does."""
        DagsterGraphQLClient("127.0.0.1", port_number=self.port).terminate_run(run_id)

    def said(self) -> list[str]:
        """All lines of the logs of all runs."""
        with dg.DagsterInstance.from_config(self.home) as instance:
            return [entry.user_message for run in instance.get_runs() for entry in instance.all_logs(run.run_id)]

    def shown(self) -> set[str]:
        """The topics that the UI shows assets of; none while it does not answer, as it may not when it loads anew."""
        body = json.dumps({"query": "{assetNodes{assetKey{path}}}"}).encode()
        request = Request(f"http://127.0.0.1:{self.port}/graphql", body, {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=30) as response:
                nodes = json.load(response)["data"]["assetNodes"]
        except OSError:
            return set()
        return {node["assetKey"]["path"][-1] for node in nodes if "topics" in node["assetKey"]["path"]}

    def ended_well(self, job: str) -> int:
        """How many runs of a job have."""
        with dg.DagsterInstance.from_config(self.home) as instance:
            return instance.get_runs_count(dg.RunsFilter(job_name=job, statuses=[dg.DagsterRunStatus.SUCCESS]))

    def runs_of(self, job: str) -> list[dg.RunRecord]:
        """All runs of a job that have begun, in the order of their beginnings."""
        with dg.DagsterInstance.from_config(self.home) as instance:
            records = instance.get_run_records(dg.RunsFilter(job_name=job))
        begun = [(record.start_time, record) for record in records if record.start_time is not None]
        return [record for _, record in sorted(begun, key=itemgetter(0))]

    def is_over(self, run_id: str) -> bool:
        """Whether a run has ended, in whatever way."""
        with dg.DagsterInstance.from_config(self.home) as instance:
            run = instance.get_run_by_id(run_id)
            return run is not None and run.is_finished

    def materialized(self, run_id: str, key: dg.AssetKey) -> frozenset[str]:
        """The metadata that a run materialized an asset with."""
        with dg.DagsterInstance.from_config(self.home) as instance:
            events = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
            found = [e.asset_materialization for e in events if e.asset_materialization is not None]
            return frozenset(name for one in found if one.asset_key == key for name in one.metadata)

    def copying_worker(self) -> tuple[str, psutil.Process]:
        """The newest run of the sync job that copies, and its process."""
        found: list[tuple[str, int]] = []

        def told() -> bool:
            with dg.DagsterInstance.from_config(self.home) as instance:
                statuses = [dg.DagsterRunStatus.STARTED]
                for run in instance.get_runs(dg.RunsFilter(job_name=self.names.sync_job, statuses=statuses), limit=1):
                    words = " ".join(str(entry.message) for entry in instance.all_logs(run.run_id))
                    pids = re.findall(r"Executing steps in process \(pid: (\d+)\)", words)
                    found.extend((run.run_id, int(pid)) for pid in pids[:1])
            return bool(found)

        self.await_that(told, 300, "a run to tell its process")
        return found[0][0], psutil.Process(found[0][1])

    def stop(self) -> None:
        """Ends it as Ctrl-C does; what is left after that is killed."""
        children = psutil.Process(self._process.pid).children(recursive=True)
        self._process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        self._kill(children)

    def kill(self) -> None:
        """Kills it with all that it has started: nobody can say anything any more."""
        self._kill(psutil.Process(self._process.pid).children(recursive=True))

    def _kill(self, children: Sequence[psutil.Process]) -> None:
        self._process.kill()
        for process in children:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(children, timeout=10)
        self._process.wait(10)
        self._log.close()


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
