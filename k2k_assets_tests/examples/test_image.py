"""What the Dockerfile installs, by its own commands in an empty folder, without the development tools."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from k2k_assets.core.deadline import wait_until
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets_tests.examples.test_deploy import IMAGE, ROOT
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, read_all, unique
from k2k_assets_tests.support.copies.pipelines import write_pipeline
from k2k_assets_tests.support.services.wheels import OF_TESTS_ALONE, plain_environment

pytestmark = pytest.mark.slow


# Of what the image holds beside Python and Java: 1,366 measured, of which pyspark is a half.
MOST_MEGABYTES = 1500


class Image:
    """The file system of the image, as far as the Dockerfile makes it.

    Args:
        root: Where it is.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "opt" / "k2k" / "bin"

    def build(self) -> None:
        """Copies and runs what the Dockerfile says; a place of the image is one below the folder."""
        source = self.root / "src"
        source.mkdir(parents=True)
        (self.root / "etc").mkdir()
        for names, _ in re.findall(r"^COPY (?!--)(.+) (\S+)$", IMAGE, re.MULTILINE):
            for name in names.split():
                if (ROOT / name).is_dir():
                    shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / name, source)
        for command in re.findall(r"^RUN (.+)$", IMAGE, re.MULTILINE):
            here = re.sub(r"(?<![\w.'])/(opt|etc|var)/", rf"{self.root}/\1/", command)
            done = subprocess.run(
                ["bash", "-ec", here],
                cwd=source,
                capture_output=True,
                text=True,
                timeout=1500,
                env=plain_environment(),
                check=False,
            )
            assert done.returncode == 0, (here, done.stderr[-3000:])

    def run(self, program: str, *arguments: str | Path, cwd: Path | None = None, **more: str) -> str:
        """Runs a program of the image; returns what it said."""
        done = subprocess.run(
            [self.bin / program, *arguments], cwd=cwd or self.root, capture_output=True, text=True, timeout=500,
            env=plain_environment() | more, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    made = Image(tmp_path_factory.mktemp("image"))
    made.build()
    return made


def _installed(image: Image) -> set[str]:
    return {line.split("==")[0].lower() for line in image.run("pip", "freeze").splitlines() if "==" in line}


def test_it_has_the_product_and_none_of_its_development_tools(image: Image) -> None:
    names = _installed(image)
    assert {"dagster", "pyspark", "starlette", "uvicorn", "dagster-postgres", "s3fs", "dagster-webserver"} <= names
    assert not names & set(OF_TESTS_ALONE)
    assert "k2k:x:10001:10001:" in (image.root / "etc" / "passwd").read_text()
    assert (image.root / "var" / "lib" / "k2k" / "dagster").is_dir()


def test_it_is_small(image: Image) -> None:
    """What the last stage takes over from the one that builds: no sources, no cache of pip, no tests."""
    folders = re.findall(r"^COPY --from=build (?:--chown=\S+ )?(/\S+) ", IMAGE, re.MULTILINE)
    assert folders == ["/opt/k2k", "/etc/passwd", "/var/lib/k2k"]
    files = [path for folder in folders for path in [image.root / folder[1:], *(image.root / folder[1:]).rglob("*")]]
    size = sum(path.stat().st_size for path in files if path.is_file() and not path.is_symlink()) / 1_000_000
    print(f"{size:.0f} MB")
    assert size < MOST_MEGABYTES
    assert not any("k2k_assets_tests" in path.parts for path in files)


def test_its_commands_work(image: Image, tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    image.run("k2k", "init", file, "--source", "s:9092", "--target", "t:9093")
    assert "exactly once" in image.run("k2k", "validate", "-f", file)
    for program in ("k2k", "k2k-tool", "k2k-offset-mapping"):
        assert "0.1.0" in image.run(program, "--version")


def test_its_code_location_and_its_component_load(image: Image, tmp_path: Path) -> None:
    folder = tmp_path / "pipelines"
    folder.mkdir()
    image.run("k2k", "init", folder / "orders.yaml", "--source", "s:9092", "--target", "t:9093")
    said = image.run(
        "dagster", "definitions", "validate", "-m", "k2k_assets.definitions", cwd=tmp_path,
        K2K_PIPELINES=str(folder), K2K_HOME=str(tmp_path / "home"),
    )  # fmt: skip
    assert "k2k_assets.definitions" in said
    image.run("python", "-c", "from k2k_assets import K2KPipelineComponent, build_k2k_assets")


@pytest.mark.integration
@pytest.mark.spark
def test_it_copies_and_a_signal_ends_it_after_its_last_commit(
    image: Image, clusters: KafkaSandbox, tmp_path: Path
) -> None:
    source, target = clusters.source_servers, clusters.target_servers
    topic = create_topic(source, unique("image"), 2)
    produce(source, topic, [b"%d" % n for n in range(500)])
    features = {"exactlyOnce": "enabled", "offsetMapping": "enabled"}
    file = write_pipeline(tmp_path, source, target, [topic], features=features)
    environment = plain_environment() | {"K2K_HOME": str(tmp_path / "home")}
    with subprocess.Popen([image.bin / "k2k", "start", "-f", file], env=environment, stderr=subprocess.PIPE) as process:
        try:
            wait_until(lambda: len(read_all(target, topic)) == 500, 300.0, "the copy")
            process.send_signal(signal.SIGTERM)
            assert process.wait(120.0) == 0
        finally:
            process.kill()
