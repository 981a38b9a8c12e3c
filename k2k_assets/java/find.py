"""Finds the Java that runs the brokers (and Ivy): `JAVA_HOME` first, as Spark does, then the path."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from k2k_assets.core.errors import K2KError

MINIMUM_VERSION = 17
_ATTEMPTS = 3
_ADVICE = (
    f"Install Java {MINIMUM_VERSION} or newer (for example `apt-get install openjdk-17-jre-headless` or "
    "`brew install openjdk@17`), or point JAVA_HOME at it."
)


def find_java() -> Path:
    """Finds the `java` program to use, and checks its version.

    Raises:
        K2KError: There is no Java, it does not run, or it is older than Java 17.
    """
    java = _candidate()
    version = _major_version(java)
    if version < MINIMUM_VERSION:
        raise K2KError(f"{java} is Java {version}; Kafka and Spark need {MINIMUM_VERSION} or newer. {_ADVICE}")
    return java


def _candidate() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not java.is_file():
            raise K2KError(f"JAVA_HOME is {home}, but there is no bin/java in it. {_ADVICE}")
        return java
    found = shutil.which("java")
    if found is None:
        raise K2KError(f"No Java found: JAVA_HOME is not set and no `java` is on the path. {_ADVICE}")
    return Path(found)


def _major_version(java: Path) -> int:
    """Reads `openjdk version "17.0.15"`, `java version "1.8.0_402"` or `openjdk version "21-ea"`."""
    answer = _asked_for_version(java)
    text = answer.stderr + answer.stdout
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    if answer.returncode != 0 or found is None:
        # macOS has a `java` program that only prints that there is no Java.
        killed = f"signal {-answer.returncode} ended it" if answer.returncode < 0 else ""
        said = killed or text.strip().partition("\n")[0]
        raise K2KError(f"{java} is no usable Java (`java -version` says: {said}). {_ADVICE}")
    return int(found.group(1))


def _asked_for_version(java: Path) -> subprocess.CompletedProcess[str]:
    """Runs `java -version`; tries a few times, because the process may be killed, for lack of memory for example."""
    for _ in range(_ATTEMPTS):
        try:
            answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise K2KError(f"{java} does not run: {error}. {_ADVICE}") from None
        if answer.returncode >= 0:
            break
    return answer
