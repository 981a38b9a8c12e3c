"""How a program's process ends."""

from __future__ import annotations

import json
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


LOGS_AT_THE_END = """
import atexit, logging, click
from k2k_assets.cli import logs, options, streams
from k2k_assets.cli.program import Program

@click.command()
@options.start_options
def begin(**_):
    logs.configure(streams.error_console())

atexit.register(logging.getLogger("k2k.tests").warning, "a thread still says this")
Program(begin, "k2k").main(["--log-format", "json"])
"""


def test_what_is_logged_after_the_command_has_its_format_too() -> None:
    command = [sys.executable, "-c", LOGS_AT_THE_END]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    [said] = ended.stderr.splitlines()
    assert json.loads(said)["message"] == "a thread still says this"
