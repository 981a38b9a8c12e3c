"""A reused worker needs no more memory than a new one."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

# Sixteen threads that hold memory at the same time, as the clients' threads do; prints how many arenas there are then.
_SCRIPT = """
import ctypes, re, sys, tempfile, threading
from k2k_assets.spark.slot_task import keep_memory_together

libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fdopen.restype = ctypes.c_void_p
libc.fdopen.argtypes, libc.fclose.argtypes = [ctypes.c_int, ctypes.c_char_p], [ctypes.c_void_p]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
if sys.argv[1] == "limited":
    keep_memory_together()
together, end = threading.Barrier(17), threading.Event()

def hold():
    together.wait()
    libc.malloc(ctypes.c_size_t(100_000))
    together.wait()
    end.wait()

threads = [threading.Thread(target=hold) for _ in range(16)]
for thread in threads:
    thread.start()
together.wait()
together.wait()
with tempfile.TemporaryFile() as file:
    stream = libc.fdopen(file.fileno(), b"w")
    libc.malloc_info(0, stream)
    libc.fflush(ctypes.c_void_p(stream))
    file.seek(0)
    print(len(re.findall(rb"<heap nr=", file.read())))
end.set()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no arenas")
def test_threads_share_two_arenas() -> None:
    def arenas(how: str) -> int:
        said = subprocess.run(
            [sys.executable, "-c", _SCRIPT, how], capture_output=True, text=True, timeout=60, check=True
        )
        return int(said.stdout)

    assert arenas("limited") <= 2
    assert arenas("unlimited") > 4, "each thread had one of its own"
