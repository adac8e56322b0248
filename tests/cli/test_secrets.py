"""dlq secrets in a real terminal and on stdin: set, list, check, delete; refused backends; nothing secret comes out."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CANARY = "CANARYs3cr3t/+=value"
PEM = (
    "-----BEGIN PRIVATE KEY-----\n"
    + "\n".join(f"CANARY{line:058d}" for line in range(30))
    + "\n-----END PRIVATE KEY-----"
)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "PYTHON_KEYRING_BACKEND": "tests.support.keyrings.FileKeyring",
        "DLQ_TEST_VAULT": str(tmp_path / "vault.json"),
        "TERM": "xterm",
    }


def dlq(environment: dict[str, str], *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "console", *words]
    return subprocess.run(command, input=stdin, env=environment, capture_output=True, text=True, cwd=ROOT, timeout=60)


def in_terminal(environment: dict[str, str], words: list[str], answers: list[str]) -> tuple[int, str]:
    """Run in a pty; each answer is typed once the program has asked for something new."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execve(sys.executable, [sys.executable, "-m", "console", *words], environment)
    seen, left, deadline = b"", list(answers), time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 1.0)
        if not ready:
            continue
        try:
            chunk = os.read(terminal, 4096)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
        if left and chunk.rstrip(b" ").endswith(b":"):
            os.write(terminal, left.pop(0).encode() + b"\n")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), seen.decode()


def test_typed_secrets_are_kept_and_never_echoed(environment: dict[str, str]) -> None:
    code, seen = in_terminal(environment, ["secrets", "set", "alpaca", "--paper"], ["key-1", CANARY])
    assert code == 0, seen
    assert CANARY not in seen
    assert "key-1" not in seen
    kept = json.loads(Path(environment["DLQ_TEST_VAULT"]).read_text())
    assert kept == {
        "dlq-console/alpaca/paper|api_key": "key-1",
        "dlq-console/alpaca/paper|secret_key": CANARY,
    }


def test_list_and_delete_name_fields_only(environment: dict[str, str]) -> None:
    assert (
        dlq(environment, "secrets", "set", "alpaca", "--live", stdin=f"api_key=K\nsecret_key={CANARY}\n").returncode
        == 0
    )
    listed = dlq(environment, "secrets", "list", "alpaca", "--live")
    assert listed.stdout.count(": set") == 2
    assert dlq(environment, "secrets", "list", "alpaca", "--paper").stdout.count("not set") == 2
    gone = dlq(environment, "secrets", "delete", "alpaca", "--live")
    assert gone.returncode == 0
    assert dlq(environment, "secrets", "delete", "alpaca", "--live").returncode == 4
    for ran in (listed, gone):
        assert CANARY not in ran.stdout + ran.stderr


def test_a_pem_comes_by_stdin_with_its_lines(environment: dict[str, str]) -> None:
    ran = dlq(environment, "secrets", "set", "kalshi", "--paper", stdin=f"api_key_id=abc\n{PEM}\n")
    assert ran.returncode == 0, ran.stderr
    assert "CANARY" not in ran.stdout + ran.stderr
    kept = json.loads(Path(environment["DLQ_TEST_VAULT"]).read_text())
    assert kept["dlq-console/kalshi/paper|private_key"] == PEM


@pytest.mark.parametrize(
    ("backend", "says"),
    [
        ("keyring.backends.null.Keyring", "no keyring backend"),
        ("keyring.backends.fail.Keyring", "no keyring backend"),
        ("tests.support.keyrings.PlaintextKeyring", "plain text"),
        ("tests.support.keyrings.UnderAnotherName", "plain text"),
        ("tests.support.keyrings.BrokenKeyring", "did not answer"),
        ("no.such.module.Keyring", "cannot be loaded"),
    ],
)
def test_bad_backends_are_refused_in_one_line(environment: dict[str, str], backend: str, says: str) -> None:
    environment["PYTHON_KEYRING_BACKEND"] = backend
    for words, stdin in ((("set",), "api_key=K\nsecret_key=S\n"), (("list",), ""), (("delete",), "")):
        ran = dlq(environment, "secrets", *words, "alpaca", "--paper", stdin=stdin)
        assert ran.returncode == 2, ran
        assert ran.stderr.count("\n") == 1
        assert says in ran.stderr
        assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("secrets", "set"),
        ("secrets", "set", "alpaca"),
        ("secrets", "set", "nowhere", "--paper"),
        ("secrets", "check", "alpaca", "--paper"),
        ("secrets", "check", "polymarket", "--paper"),
    ],
)
def test_bad_input_is_one_line(environment: dict[str, str], words: tuple[str, ...]) -> None:
    ran = dlq(environment, *words)
    assert ran.returncode == 2, ran
    assert ran.stderr.count("\n") == 1


def test_check_probes_the_venue(environment: dict[str, str], tmp_path: Path) -> None:
    practice = subprocess.Popen(
        [sys.executable, "-m", "console", "practice"], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    )
    try:
        assert practice.stdout is not None
        url = practice.stdout.readline().strip()
        config = tmp_path / "config.toml"
        config.write_text(f'[venues.alpaca]\npaper_endpoint = "{url}"\n')
        dlq(environment, "secrets", "set", "alpaca", "--paper", stdin=f"api_key=K\nsecret_key={CANARY}\n")
        ran = dlq(environment, "secrets", "check", "alpaca", "--paper", "--config", str(config))
        assert ran.returncode == 0, ran
        assert "127.0.0.1" in ran.stdout
        assert CANARY not in ran.stdout + ran.stderr
    finally:
        practice.terminate()
        practice.wait(30)
        practice.stdout.close() if practice.stdout else None


def test_owner_only_files_serve_where_there_is_no_keyring(environment: dict[str, str], tmp_path: Path) -> None:
    environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
    folder = tmp_path / "credentials"
    folder.mkdir(mode=0o700)
    for field in ("api_key", "secret_key"):
        path = folder / f"alpaca.paper.{field}"
        path.write_text(CANARY)
        path.chmod(0o600)
    environment["CREDENTIALS_DIRECTORY"] = str(folder)
    listed = dlq(environment, "secrets", "list", "alpaca", "--paper")
    assert listed.stdout.count(": set") == 2, listed
    (folder / "alpaca.paper.api_key").chmod(0o644)
    refused = dlq(environment, "secrets", "list", "alpaca", "--paper")
    assert refused.returncode == 2
    assert "chmod 600" in refused.stderr
    assert CANARY not in refused.stderr


def test_a_file_that_is_read_first_is_not_shadowed_by_what_is_set(environment: dict[str, str], tmp_path: Path) -> None:
    environment["CREDENTIALS_DIRECTORY"] = str(tmp_path)
    typed = f"api_key=K\nsecret_key={CANARY}\n"
    kept = dlq(environment, "secrets", "set", "alpaca", "--paper", stdin=typed)
    assert kept.stdout == "set alpaca paper: api_key, secret_key (keyring tests.support.keyrings.FileKeyring)\n"
    path = tmp_path / "alpaca.paper.secret_key"
    path.touch(0o600)
    for verb in ("set", "delete"):
        ran = dlq(environment, "secrets", verb, "alpaca", "--paper", stdin=typed)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr == f"dlq: {path} is read before the keyring: change or remove that file instead\n"
    path.unlink()
    environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
    ran = dlq(environment, "secrets", "set", "alpaca", "--paper", stdin=typed)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert f"put owner-only files named alpaca.paper.<field> into {tmp_path}" in ran.stderr


def test_a_file_that_cannot_be_read_as_text_is_said(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "alpaca.paper.api_key"
    path.touch(0o600)
    path.write_bytes(b"\xff\xfe")
    environment["CREDENTIALS_DIRECTORY"] = str(tmp_path)
    ran = dlq(environment, "secrets", "list", "alpaca", "--paper")
    assert (ran.returncode, ran.stderr) == (2, f"dlq: cannot read {path}: it is not text\n")
