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

from tests.support import forked_command

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
    return subprocess.CompletedProcess(words, *forked_command.ran(words, environment, cwd=ROOT, stdin=stdin))


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
        ("secrets", "set", "alpaca", "--paper", "--account", ""),
        ("secrets", "check", "polymarket", "--paper"),
        ("secrets", "check", "alpaca"),
        ("secrets", "delete", "alpaca", "--account", "a"),
        ("secrets", "list", "nowhere"),
        ("secrets", "list", "--account", "a"),
        ("secrets", "set", "provider/acme", "--account", "a"),
        ("secrets", "set", "provider/acme/"),
        ("secrets", "set", "provider/"),
        ("secrets", "set", "hub", "--live"),
    ],
)
def test_bad_input_is_one_line(environment: dict[str, str], words: tuple[str, ...]) -> None:
    ran = dlq(environment, *words)
    assert ran.returncode == 2, ran
    assert ran.stderr.count("\n") == 1


def test_check_probes_the_venue(environment: dict[str, str], tmp_path: Path) -> None:
    with forked_command.Started(["practice"], environment, cwd=ROOT) as practice:
        assert practice.stdout is not None
        url = practice.stdout.readline().strip()
        config = tmp_path / "config.toml"
        config.write_text(f'[venues.alpaca]\npaper_endpoint = "{url}"\n')
        dlq(environment, "secrets", "set", "alpaca", "--paper", stdin=f"api_key=K\nsecret_key={CANARY}\n")
        ran = dlq(environment, "secrets", "check", "alpaca", "--paper", "--config", str(config))
        assert ran.returncode == 0, ran
        assert "127.0.0.1" in ran.stdout
        assert CANARY not in ran.stdout + ran.stderr
        practice.terminate()


def test_an_account_has_secrets_of_its_own(environment: dict[str, str]) -> None:
    for words, key in (((), "own"), (("--account", "it's/a"), "a"), (("--account=-b",), "b")):
        typed = f"api_key={key}\nsecret_key={CANARY}\n"
        ran = dlq(environment, "secrets", "set", "alpaca", *words, "--live", stdin=typed)
        assert ran.returncode == 0, ran
    kept = json.loads(Path(environment["DLQ_TEST_VAULT"]).read_text())
    assert {name: value for name, value in kept.items() if name.endswith("api_key")} == {
        "dlq-console/alpaca/live|api_key": "own",
        "dlq-console/alpaca/it%27s%2Fa/live|api_key": "a",
        "dlq-console/alpaca/-b/live|api_key": "b",
    }
    listed = dlq(environment, "secrets", "list", "alpaca", "--account", "it's/a", "--live")
    assert listed.stdout.startswith("alpaca live of account it's/a (keyring ")
    assert listed.stdout.count(": set") == 2
    assert dlq(environment, "secrets", "delete", "alpaca", "--account", "it's/a", "--live").returncode == 0
    left = json.loads(Path(environment["DLQ_TEST_VAULT"]).read_text())
    assert set(kept) - set(left) == {f"dlq-console/alpaca/it%27s%2Fa/live|{name}" for name in ("api_key", "secret_key")}


def test_list_names_every_set_that_the_config_knows(environment: dict[str, str], tmp_path: Path) -> None:
    config = tmp_path / "dlq-console" / "config.toml"
    config.parent.mkdir()
    config.write_text(
        '[venues.alpaca]\ndefault_account = "main"\n[venues.alpaca.accounts.hedge]\n'
        '[venues.poly]\ntype = "polymarket"\n[venues.gateway]\ntype = "ibkr"\n[venues.odd]\ntype = "nothing"\n'
    )
    vault = {"dlq-console/alpaca/hedge/paper|api_key": CANARY, "dlq-console/kalshi/live|api_key_id": CANARY}
    Path(environment["DLQ_TEST_VAULT"]).write_text(json.dumps(vault))
    one = dlq(environment, "secrets", "list", "alpaca")
    heads = [line.partition(" (")[0] for line in one.stdout.splitlines() if not line.startswith(" ")]
    names = ("", " of account main", " of account hedge")
    assert heads == [f"alpaca {mode}{name}" for name in names for mode in ("paper", "live")]
    assert (one.returncode, one.stdout.count(": set"), one.stdout.count(": not set")) == (0, 1, 11)
    everything = dlq(environment, "secrets", "list")
    assert everything.returncode == 0
    heads = [line.partition(" (")[0] for line in everything.stdout.splitlines() if not line.startswith(" ")]
    assert {"alpaca live", "poly live", "gateway live needs no secrets", "kalshi live"} <= set(heads)
    assert {"poly paper", "hyperliquid live", "kalshi paper"}.isdisjoint(heads)
    assert "no venue 'nothing'" in everything.stderr
    papers = dlq(environment, "secrets", "list", "--paper").stdout
    assert ("alpaca paper" in papers, " live" in papers) == (True, False)
    assert CANARY not in one.stdout + one.stderr + everything.stdout + everything.stderr


def test_a_tenant_has_a_secret_of_its_own(environment: dict[str, str]) -> None:
    for name in ("provider/acme", "provider/acme/t.1", "provider/acme/a/b", "hub/desk"):
        assert dlq(environment, "secrets", "set", name, stdin=f"{name}{CANARY}\n").returncode == 0
    kept = json.loads(Path(environment["DLQ_TEST_VAULT"]).read_text())
    assert kept == {
        "dlq-console/provider/acme|authorization": f"provider/acme{CANARY}",
        "dlq-console/provider/acme/t%2E1|authorization": f"provider/acme/t.1{CANARY}",
        "dlq-console/provider/acme/a%2Fb|authorization": f"provider/acme/a/b{CANARY}",
        "dlq-console/hub/desk|token": f"hub/desk{CANARY}",
    }
    assert dlq(environment, "secrets", "list", "provider/acme/t.1").stdout.endswith("authorization: set\n")
    assert dlq(environment, "secrets", "delete", "provider/acme/t.1").returncode == 0
    assert dlq(environment, "secrets", "list", "provider/acme/t.1").stdout.endswith("authorization: not set\n")
    assert dlq(environment, "secrets", "list", "provider/acme").stdout.endswith("authorization: set\n")


def test_a_part_of_a_set_is_said_to_be_one(environment: dict[str, str]) -> None:
    ran = dlq(environment, "secrets", "set", "alpaca", "--live", stdin="api_key=K\n")
    assert ran.returncode == 0
    assert ran.stderr == "dlq: alpaca live cannot be used yet: secret_key is not set\n"


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
    assert (ran.returncode, ran.stderr) == (2, f"dlq: {path} cannot be read: it is not text\n")
