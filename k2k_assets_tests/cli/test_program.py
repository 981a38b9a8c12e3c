"""How a program's process ends."""

from __future__ import annotations

import subprocess
import sys

# An exit handler of the C library would end the process by a signal, as OpenSSL's cleanup does under client threads.
ENDS = """
import atexit, ctypes
from k2k_assets.cli.program import end_process
library = ctypes.CDLL(None)
library.__cxa_atexit(library.abort, None, None)
atexit.register(print, "what was registered", end="")
print("what was said, and ", end="")
end_process(3)
"""


def test_a_process_ends_with_its_code_whatever_the_client_library_is_doing() -> None:
    ended = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (3, "what was said, and what was registered")
