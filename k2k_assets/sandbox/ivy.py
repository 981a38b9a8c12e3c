"""Downloads jars with the Ivy that pyspark brings along, so that neither Maven nor a script is needed.

The list of jars is complete (a closure made beforehand), so nothing is resolved: no POM is read, each jar is
one request. Ivy is told the repository by Spark's own variable `DEFAULT_ARTIFACT_REPOSITORY`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from k2k_assets.core.errors import K2KError
from k2k_assets.java.find import find_java

REPOSITORY_VARIABLE = "DEFAULT_ARTIFACT_REPOSITORY"
_DOWNLOAD_SECONDS = 300.0
_ATTEMPTS = 3
_ERROR_LINES = 8
_USER_AND_PASSWORD = re.compile(r"//[^/\s]*@")


class Coordinates(NamedTuple):
    """What a Maven repository calls a jar, or another file."""

    group: str
    artifact: str
    version: str
    classifier: str = ""
    extension: str = "jar"

    @property
    def file_name(self) -> str:
        """The file that holds it."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{classifier}.{self.extension}"


def download(jars: Sequence[Coordinates], work: Path) -> Path:
    """Downloads jars; tried again after a failure, with what the attempts before have brought kept.

    Args:
        jars: All jars, dependencies included.
        work: An empty directory for settings, Ivy's cache and the result.

    Returns:
        The directory below `work` that holds the jars.

    Raises:
        K2KError: A jar could not be had; the message holds Ivy's own words.
    """
    repository = os.environ.get(REPOSITORY_VARIABLE) or None
    (work / "ivysettings.xml").write_text(_settings(repository, work / "ivy-cache"))
    (work / "ivy.xml").write_text(_module(jars))
    target = work / "jars"
    command = [
        str(find_java()), "-cp", str(_ivy_jar()), "org.apache.ivy.Main", "-warn",
        "-settings", str(work / "ivysettings.xml"), "-ivy", str(work / "ivy.xml"), "-confs", "default",
        "-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]",
    ]  # fmt: skip
    words = ""
    for _ in range(_ATTEMPTS):
        done, words = _run(command, cwd=work)
        if done:
            return target
    message = (
        f"Could not download Kafka's jars from {repository or 'Maven Central'} ({_ATTEMPTS} attempts). Is it "
        f"reachable? Another Maven repository is named by {REPOSITORY_VARIABLE}. Ivy said:\n{words}"
    )
    raise K2KError(_USER_AND_PASSWORD.sub("//", message))


def _run(command: list[str], cwd: Path) -> tuple[bool, str]:
    try:
        answer = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False, f"(nothing: it was stopped after {_DOWNLOAD_SECONDS:g} s)"
    lines = [line for line in (answer.stdout + answer.stderr).splitlines() if line.strip(" :\t")]
    return answer.returncode == 0, "\n".join(lines[-_ERROR_LINES:])


def _ivy_jar() -> Path:
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise K2KError("pyspark is not installed, and its Ivy is what downloads Kafka.")
    found = sorted(Path(spark.origin).parent.glob("jars/ivy-*.jar"))
    if not found:
        raise K2KError(f"There is no jars/ivy-*.jar in {Path(spark.origin).parent}: is pyspark complete?")
    return found[-1]


def _settings(repository: str | None, cache: Path) -> str:
    # Without a root Ivy takes the one that it knows itself: Maven Central.
    root = f" root={quoteattr(repository)}" if repository else ""
    # Ivy's own checksum files are left alone: the SHA-256 of every jar is compared afterwards.
    return f"""<ivysettings>
  <property name="ivy.checksums" value=""/>
  <settings defaultResolver="repository"/>
  <caches defaultCacheDir={quoteattr(str(cache))}/>
  <resolvers>
    <ibiblio name="repository" m2compatible="true" usepoms="false"{root}/>
  </resolvers>
</ivysettings>
"""


def _module(jars: Sequence[Coordinates]) -> str:
    wanted = "\n".join(
        f"    <dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} "
        f'rev={quoteattr(jar.version)} conf="default->default" transitive="false">{_file(jar)}</dependency>'
        for jar in jars
    )
    return f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="k2k" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{wanted}
  </dependencies>
</ivy-module>
"""


def _file(jar: Coordinates) -> str:
    kind = quoteattr(jar.extension)
    classifier = f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else ""
    return f"<artifact name={quoteattr(jar.artifact)} type={kind} ext={kind}{classifier}/>"
