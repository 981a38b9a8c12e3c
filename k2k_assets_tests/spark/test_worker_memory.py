"""A reused worker needs no more memory than a new one, and gets what it reads into from itself."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

# Sixteen threads that hold memory at the same time, as the clients' threads do; prints how many arenas there are then.
_THREADS = """
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
    assert _number(_THREADS, "limited") <= 2
    assert _number(_THREADS, "unlimited") > 4, "each thread had one of its own"


# Sixteen times a megabyte is read and let go, ten times over; prints the page faults behind the first time.
_READS = """
import resource, sys
from k2k_assets.spark.slot_task import keep_memory_together

if sys.argv[1] == "kept":
    keep_memory_together()

def read():
    held = [b"x" * (1_000_000 + n) for n in range(16)]

read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    read()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such thresholds")
def test_what_is_read_next_costs_no_page_faults() -> None:
    assert _number(_READS, "kept") < 500
    assert _number(_READS, "given back") > 5000, "each time anew"


def _number(script: str, how: str) -> int:
    said = subprocess.run([sys.executable, "-c", script, how], capture_output=True, text=True, timeout=60, check=True)
    return int(said.stdout)
