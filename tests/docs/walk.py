"""Plays a page of docs from its first line to its last: writes its files, runs its commands, expects its outputs.

Standard library only: `python walk.py PAGE FOLDER` plays it with whatever `dlq` and `python` are on the path.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_PORT = "18080"
_BLOCK = re.compile(r"(?:<!-- (?P<mark>[^>]+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL)
_TOLD = "…told…"


def walk(page: Path, folder: Path, environ: Mapping[str, str]) -> str:
    """Everything that was printed. Raises AssertionError where a command fails or prints something else."""
    text = page.read_text("utf-8").replace(_PORT, _free_port())
    background: list[subprocess.Popen[str]] = []
    settings, printed, said = dict(environ), "", ""
    try:
        for block in _BLOCK.finditer(text):
            mark, language, body = block["mark"] or "", block["language"], block["text"]
            if mark.startswith("file: "):
                (folder / mark.removeprefix("file: ")).write_text(body, "utf-8")
            elif mark == "second terminal":
                background.append(_started(body, folder, settings))
            elif language == "sh":
                said, settings = _run(body, folder, settings)
                printed += said
            elif language == "text":
                for line in body.splitlines():
                    assert line.strip() in said, f"the page shows {line!r}; it printed:\n{said}"
    finally:
        for process in background:
            os.killpg(process.pid, signal.SIGTERM)
            process.communicate()
    return printed


def _free_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return str(taken.getsockname()[1])


def _started(body: str, folder: Path, environ: Mapping[str, str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        ["bash", "-c", body], cwd=folder, env=environ, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline(), f"ended at once: {body}"
    return process


def _run(body: str, folder: Path, environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """What the lines printed, and the environment after them: a reader stays in one shell."""
    script = f"set -eu\n{body}\necho {_TOLD}\nenv -0"
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environ, capture_output=True, stdin=subprocess.DEVNULL, check=False
    )
    out, _, after = done.stdout.decode().partition(f"{_TOLD}\n")
    assert done.returncode == 0, f"exit {done.returncode}: {body}\n{out}{done.stderr.decode()}"
    return out + done.stderr.decode(), dict(line.split("=", 1) for line in after.split("\0") if "=" in line)


if __name__ == "__main__":
    print(walk(Path(sys.argv[1]).resolve(), Path(sys.argv[2]), os.environ))
