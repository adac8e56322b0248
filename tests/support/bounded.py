"""A command as a process of its own that may take 20 seconds and 600 MB, whatever it is given to read."""

from __future__ import annotations

import subprocess
import sys

_MOST_KB = 600_000
_PROGRAM = """
import re, sys
import backends.guarded_connection
from console.cli.main import run
if quiet := float(sys.argv[1]):
    backends.guarded_connection.QUIET_SECONDS = quiet
code = run(sys.argv[2:], own_process=True)
used = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())  # getrusage counts the parent's too
print("", used[1] if used else 0, file=sys.stderr, sep="\\n")
sys.exit(code)
"""


def ended(*words: str, quiet: float = 0.0) -> tuple[int, str, str]:
    """Exit code, output and messages; `quiet` is the time to wait for a row where it is not the usual one."""
    command = [sys.executable, "-c", _PROGRAM, str(quiet), *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    said, _, used = ran.stderr.rstrip("\n").rpartition("\n")
    assert int(used) < _MOST_KB, ran.stderr
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran.returncode, ran.stdout, said.rstrip("\n") + "\n"
