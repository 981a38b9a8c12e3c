"""The index on its own real file system, which becomes full, read-only or forbidden."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from k2k_assets.mapping.index import IndexUnusable, MappingIndex
from k2k_assets.pipeline import Pipeline, load_pipeline
from k2k_assets.sandbox import KafkaSandbox
from k2k_assets.spark.sessions import build_session
from k2k_assets_tests.mapping.index.test_storage import updated
from k2k_assets_tests.support.brokers.kafka import create_topic, produce, unique
from k2k_assets_tests.support.copies.copying import copy
from k2k_assets_tests.support.copies.pipelines import write_pipeline

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.storm]

_THIS = "k2k_assets_tests.mapping.index.test_small_disk"
# A namespace in which a normal user may mount, and in which file modes also restrict root.
_APART = ("unshare", "--user", "--map-root-user", "--mount", "setpriv", "--bounding-set", "-dac_override")


def may_mount() -> bool:
    """Whether this machine lets a process have mounts of its own."""
    known = all(map(shutil.which, ("unshare", "setpriv")))
    return known and subprocess.run([*_APART, "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize("mode", ["enabled", "disabled"])
@pytest.mark.skipif(not may_mount(), reason="this machine forbids user namespaces")
def test_a_disk_that_is_full_read_only_or_forbidden(clusters: KafkaSandbox, tmp_path: Path, mode: str) -> None:
    topic = create_topic(clusters.source_servers, unique("disk"))
    disk = tmp_path / "disk"
    disk.mkdir()
    path = write_pipeline(
        tmp_path,
        clusters.source_servers,
        clusters.target_servers,
        [topic],
        features={"exactlyOnce": mode, "offsetMapping": "enabled"},
        index={"path": str(disk)},
    )
    command = [*_APART, sys.executable, "-m", _THIS, str(path), clusters.source_servers, topic, str(disk)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=500)
    assert ended.returncode == 0, ended.stderr[-4000:]
    told = json.loads(ended.stdout.splitlines()[-1])
    for number, said in told.items():
        assert f"in {disk}" in said
        assert f"cannot be written: {os.strerror(int(number))}" in said
    assert {int(number) for number in told} == {errno.ENOSPC, errno.EROFS, errno.EACCES}


def _main(path: Path, source: str, topic: str, disk: Path) -> dict[int, str]:
    """What is said of each trouble, by its number; the index has to be what it was, and to grow when it is over."""
    _mount("-t", "tmpfs", "-o", "size=2m", "none", str(disk))
    pipeline = load_pipeline([path])
    index = _Growing(pipeline, source, topic)
    assert index.grown() == 5
    filler = disk / "filler"
    said = {}
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        _fill(filler)
    said[errno.ENOSPC] = index.refused()
    filler.unlink()
    assert index.updated() == 10
    _mount("-o", "remount,ro", str(disk))
    said[errno.EROFS] = index.refused()
    _mount("-o", "remount,rw", str(disk))
    assert index.updated() == 15
    folders = [folder for folder in (disk, *disk.rglob("*")) if folder.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    said[errno.EACCES] = index.refused()
    for folder in folders:
        folder.chmod(0o755)
    assert index.updated() == 20
    return said


class _Growing:
    """An index that has five more records to take each time."""

    def __init__(self, pipeline: Pipeline, source: str, topic: str) -> None:
        self._pipeline, self._source, self._topic = pipeline, source, topic
        self._spark = build_session(pipeline)

    def grown(self) -> int:
        """Copies five more records; how many the index maps then."""
        produce(self._source, self._topic, [b"r"] * 5)
        copy(self._pipeline)
        return self.updated()

    def updated(self) -> int:
        """How many records the index maps after an update."""
        return updated(self._spark, self._pipeline).manifest.mapped

    def refused(self) -> str:
        """Why five more are not taken."""
        before = MappingIndex.open(self._pipeline).manifest
        try:
            self.grown()
        except IndexUnusable as error:
            assert MappingIndex.open(self._pipeline).manifest == before
            return str(error)
        raise AssertionError("it was written")


def _fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    print(json.dumps(_main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4]))))
