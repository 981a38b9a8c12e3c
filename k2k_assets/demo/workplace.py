"""The demo's own folders: pipeline file, discovery state, mapping index, Dagster's home. All temporary."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from k2k_assets import orchestration
from k2k_assets.core.home import HOME_VARIABLE
from k2k_assets.definitions import FOLDER_VARIABLE
from k2k_assets.discovery import Discovery, refresh
from k2k_assets.kafka.cluster import Cluster
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.sandbox.pipeline_file import pipeline_text, write_pipeline_file

# The ones that users are to copy.
_DAGSTER_SETTINGS = Path(orchestration.__file__).parent / "dagster.yaml"
# A JVM that lives for a minute is quicker without the compiler's second stage; small data needs few partitions.
_QUICK_SPARK = """spark:
  config:
    spark.driver.extraJavaOptions: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark.sql.shuffle.partitions: "2"
"""


@dataclass(frozen=True, slots=True)
class Workplace:
    """Folders, and the variables that lead everything to them.

    Attributes:
        root: The folder that holds the others.
    """

    root: Path

    @property
    def pipelines(self) -> Path:
        """Where the pipeline file is."""
        return self.root / "pipelines"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the environment that name the folders."""
        return {
            FOLDER_VARIABLE: str(self.pipelines),
            HOME_VARIABLE: str(self.root / "home"),
            "DAGSTER_HOME": str(self.root / "dagster"),
            # Read even where no settings file is.
            "DAGSTER_DISABLE_TELEMETRY": "yes",
        }

    def write_pipeline(self, sandbox: KafkaSandbox, more: str = "") -> Pipeline:
        """Writes the pipeline file of a sandbox and loads it.

        Args:
            sandbox: A started one.
            more: YAML to add at the end.
        """
        path = self.pipelines / "demo.yaml"
        write_pipeline_file(path, pipeline_text(sandbox) + _QUICK_SPARK + more)
        return load_pipeline([path])


@contextmanager
def workplace() -> Iterator[Workplace]:
    """Makes the folders and sets the variables; the folders go at the end."""
    with tempfile.TemporaryDirectory(prefix="k2k-demo-", ignore_cleanup_errors=True) as root:
        place = Workplace(Path(root))
        (place.root / "dagster").mkdir()
        shutil.copy(_DAGSTER_SETTINGS, place.root / "dagster" / "dagster.yaml")
        os.environ.update(place.environment)
        yield place


def discovered(pipeline: Pipeline) -> Discovery:
    """Asks both clusters what the pipeline copies, and writes the discovery state."""
    with (
        Cluster("source", pipeline.client_properties("source", "admin")) as source,
        Cluster("target", pipeline.client_properties("target", "admin")) as target,
    ):
        return refresh(pipeline, source, target)
