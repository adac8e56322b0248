"""dismiss, restore, halt, resume, audit, init: conditional, recorded, and refused in one clear line."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path

import pytest

from tests.cli.conftest import Dlq, Make, fetch
from tests.support.orders import postgres_store, row, sqlite_store
from tests.support.terminal.pty import ROOT, Terminal

ONE, TWO = "dlq_0000000000000001", "dlq_0000000000000002"


def test_dismiss_says_horizons_line_and_keeps_the_row(dlq: Dlq, make: Make) -> None:
    target = make([row(1), row(2)])
    ran = dlq("dismiss", ONE, "--db", target, "--reason", "market-closed", "--note", "holiday")
    assert (ran.code, ran.out) == (0, f"dismissed {ONE}\n")
    assert [bool(flag) for (flag,) in fetch(target, "SELECT dismissed FROM order_dlq ORDER BY dlq_id")] == [True, False]
    event = dlq("show", ONE, "--db", target, "--json").rows[0]["audit"][0]
    assert (event["reason"], event["note"]) == ("market-closed", "holiday")
    assert event["entries"] == [[ONE, 0, 0]]


def test_a_second_dismiss_is_not_acted_on(dlq: Dlq, make: Make) -> None:
    target = make([row(1), row(2)])
    assert dlq("dismiss", ONE, "--db", target, "--reason", "test").code == 0
    ran = dlq("dismiss", ONE, TWO, "--db", target, "--reason", "test")
    assert (ran.code, ran.out) == (4, f"dismissed {TWO}\n")
    assert ran.err == f"dlq: {ONE}: already dismissed\n"
    (said,) = dlq("dismiss", ONE, "--db", target, "--reason", "test", "--json").rows
    assert said == {"dlq_id": ONE, "outcome": "skipped", "detail": "already dismissed"}


def test_a_role_that_cannot_read_the_ledger_is_not_told_that_all_is_well(dlq: Dlq, postgres_db: str) -> None:
    target = postgres_store(postgres_db, [row(1)])
    assert dlq("dismiss", ONE, "--db", target, "--reason", "test").code == 0
    head = dlq("audit", "verify", "--db", target).out.strip()
    role = f"auditor_{uuid.uuid4().hex[:8]}"
    for statement in (f"CREATE ROLE {role} LOGIN", f"GRANT SELECT ON order_dlq TO {role}"):
        fetch(target, statement)
    auditor = target.replace("postgres@", f"{role}@")
    for words in (("verify",), ("verify", "--head", head), ("export",)):
        ran = dlq("audit", *words, "--db", auditor)
        assert (ran.code, ran.out) == (5, "")
        assert "this role may not read it" in ran.err
    for looking in (("list",), ("show", ONE), ("export", "--format", "csv")):
        ran = dlq(*looking, "--db", auditor)
        assert ran.code == 0
        assert "in doubt, replayed or halted is unknown" in ran.err


def test_restore_takes_it_back(dlq: Dlq, make: Make) -> None:
    target = make([row(1)])
    dlq("dismiss", ONE, "--db", target, "--reason", "test")
    assert dlq("restore", ONE, "--db", target, "--note", "mistake").out == f"restored {ONE}\n"
    assert dlq("list", "--db", target, "--json").rows[0]["state"] == "pending"
    assert dlq("restore", ONE, "--db", target).code == 4


@pytest.mark.parametrize(
    "words",
    [
        ("dismiss", ONE),
        ("dismiss", ONE, "--reason", "bored"),
        ("dismiss", ONE, "--reason", "other"),
        ("dismiss", "dlq_nope", "--reason", "test"),
        ("dismiss", ONE, "dlq_nope", "--reason", "test"),
        ("dismiss", "--reason", "test"),
        ("dismiss", "--venue", "alpaca", "--reason", "test"),
        ("dismiss", "--venue", "alpaca", "--reason", "test", "--expect", "7"),
        ("dismiss", ONE, "--venue", "alpaca", "--reason", "test", "--expect", "1"),
        ("restore", "dlq_nope"),
        ("resume",),
        ("list", "--since", "yesterdayish"),
        ("list", "--limit", "-1"),
        ("audit", "verify", "--head", "zebra"),
        ("audit", "export", "--head", "0:0"),
    ],
)
def test_bad_input_does_nothing(dlq: Dlq, make: Make, words: tuple[str, ...]) -> None:
    target = make([row(1), row(2)])
    before = fetch(target, "SELECT * FROM order_dlq ORDER BY dlq_id")
    ran = dlq(*words, "--db", target)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("dlq: ")
    assert ran.err.count("\n") == 1
    assert fetch(target, "SELECT * FROM order_dlq ORDER BY dlq_id") == before


def asked(target: str, *answers: str) -> tuple[int, str]:
    """`dlq dismiss ID --db X`, Horizon's own words, in a terminal; each answer is typed when it is asked for."""
    questions = ("reason, by number or code", "note that says why")
    environ = {"PYTHONPATH": str(ROOT), "HOME": "/nonexistent", "PATH": os.environ["PATH"]}
    with Terminal(["dismiss", ONE, "--db", target], environ, is_forked=True) as terminal:
        for number, answer in enumerate(answers, 1):
            terminal.until(lambda: sum(map(terminal.text.count, questions)) == number, "asks")  # noqa: B023 - at once
            terminal.type(answer if answer == "\x04" else f"{answer}\r")
        return terminal.ended(), terminal.text


@pytest.mark.parametrize(
    ("answers", "recorded"),
    [
        (("7",), ("bad-order", None)),
        (("0", "99", "bored", "stale"), ("stale", None)),
        (("9", "fat finger"), ("other", "fat finger")),
    ],
)
def test_a_terminal_is_asked_for_the_reason(
    dlq: Dlq, tmp_path: Path, answers: tuple[str, ...], recorded: tuple[str, str | None]
) -> None:
    target = sqlite_store(tmp_path / "orders.db", [row(1)])
    code, seen = asked(target, *answers)
    assert (code, f"dismissed {ONE}" in seen) == (0, True), seen
    assert "   1  market-closed\n" in seen
    assert seen.count("is not one of them") == max(0, len(answers) - 1) * (recorded[1] is None)
    event = dlq("show", ONE, "--db", target, "--json").rows[0]["audit"][0]
    assert (event["reason"], event["note"]) == recorded


@pytest.mark.parametrize("answers", [("",), ("other", "\x04")])
def test_no_reason_on_a_terminal_dismisses_nothing(dlq: Dlq, tmp_path: Path, answers: tuple[str, ...]) -> None:
    target = sqlite_store(tmp_path / "orders.db", [row(1)])
    code, seen = asked(target, *answers)
    assert (code, "dlq: no reason given, nothing was dismissed" in seen) == (4, True), seen
    assert dlq("list", "--db", target, "--json").rows[0]["state"] == "pending"


def test_what_is_at_stake_is_said_before_the_question(tmp_path: Path) -> None:
    """In the words of the console's gate: worth by currency, venues and accounts, the oldest, what may stand there."""
    lost = {"error": "ReadTimeout: no answer in 10 s", "quantity": 1000.0, "price": 90.0}
    kinds: tuple[dict[str, object], ...] = (
        lost,
        {**lost, "venue_name": "kalshi", "price": 0.5},
        {"error": "HTTP 429 after 3 attempts"},
    )
    target = sqlite_store(tmp_path / "orders.db", [row(n, **kind) for n, kind in enumerate(kinds, 1)])
    words = ["dismiss", "--filter", "side:buy", "--expect", "3", "--db", target, "--reason", "test"]
    environ = {"PYTHONPATH": str(ROOT), "HOME": "/nonexistent", "PATH": os.environ["PATH"]}
    with Terminal(words, environ, is_forked=True) as terminal:
        terminal.until(lambda: "type 3 to dismiss 3 entries" in terminal.text, "asks")
        told, _, _ = terminal.text.partition("type 3")
        terminal.type("2\r")
        assert terminal.ended() == 4
    shown = " ".join(told.split())
    assert re.search(r"Dismiss 3 entries · [0-9.]+k USD ", shown), shown
    for word in ("alpaca", "kalshi", "oldest ", "! 2 may have reached the venue: dismissing cancels nothing there"):
        assert word in shown, shown
    assert "(dlq ask asks)" in shown


def test_an_unknown_entry_is_named_before_a_reason_is_asked_for(tmp_path: Path) -> None:
    code, seen = asked(sqlite_store(tmp_path / "orders.db", [row(2)]))
    assert (code, f"no such entry: {ONE}" in seen, "why are you dismissing it" in seen) == (2, True, False)


def test_dismiss_by_filter_with_the_expected_count(dlq: Dlq, make: Make) -> None:
    target = make([row(1), row(2, venue_name="kalshi"), row(3)])
    ran = dlq("dismiss", "--venue", "alpaca", "--expect", "2", "--db", target, "--reason", "duplicate", "--json")
    assert ran.code == 0
    assert [(one["dlq_id"][-1], one["outcome"]) for one in ran.rows] == [("1", "dismissed"), ("3", "dismissed")]


def test_a_restore_takes_filters_and_means_what_is_settled(dlq: Dlq, make: Make) -> None:
    target = make([row(n, venue_name="kalshi" if n == 4 else "alpaca") for n in range(1, 5)])
    assert dlq("dismiss", "--venue", "alpaca", "--expect", "3", "--reason", "test", "--db", target).code == 0
    asked = dlq("restore", "--venue", "alpaca", "--db", target)
    assert (asked.code, "--expect 3" in asked.err) == (2, True)
    assert dlq("restore", "--venue", "alpaca", "--expect", "2", "--db", target).code == 2
    back = dlq("restore", "--filter", "venue:alpaca", "--expect", "3", "--json", "--db", target)
    assert (back.code, [one["outcome"] for one in back.rows]) == (0, ["restored"] * 3)
    assert dlq("restore", "--db", target).code == 2


def test_help_tells_of_every_command_with_its_global_options(dlq: Dlq) -> None:
    told = {name: dlq("help", name) for name in ("list", "replay", "secrets", "nowhere", "dismis")}
    assert [ran.code for ran in told.values()] == [0, 0, 0, 2, 2]
    for name in ("list", "replay", "secrets"):
        assert all(option in told[name].out for option in ("--config", "--operator", "--table", "--read-only")), name
    assert "did you mean dismiss?" in told["dismis"].err
    assert "replay" in dlq("help").out


def test_halt_and_resume_are_recorded(dlq: Dlq, make: Make) -> None:
    target = make([row(1)])
    assert dlq("resume", "--note", "x", "--db", target).code == 4
    assert dlq("halt", "--db", target).code == 0, "at once: a note may be left out"
    assert '"halted": true' in dlq("doctor", "--db", target, "--json").out
    assert dlq("resume", "--note", "all clear", "--db", target).code == 0
    assert [event["kind"] for event in dlq("audit", "export", "--db", target).rows] == ["halt", "resume"]


def test_the_head_is_printed_and_finds_a_cut(dlq: Dlq, make: Make) -> None:
    target = make([row(1), row(2)])
    dlq("dismiss", ONE, "--db", target, "--reason", "test")
    first = dlq("audit", "verify", "--db", target)
    dlq("dismiss", TWO, "--db", target, "--reason", "test")
    second = dlq("audit", "verify", "--db", target)
    assert first.code == second.code == 0
    assert second.out.startswith("2:")
    assert dlq("audit", "verify", "--db", target, "--head", first.out.strip()).code == 0
    longer = f"3:{'0' * 64}"
    broken = dlq("audit", "verify", "--db", target, "--head", longer)
    assert broken.code == 1
    assert "truncated" in broken.err


def test_read_only_refuses_acts(dlq: Dlq, make: Make) -> None:
    target = make([row(1)])
    ran = dlq("dismiss", ONE, "--db", target, "--reason", "test", "--read-only")
    assert ran.code == 4
    assert "read-only" in ran.err
    assert dlq("list", "--db", target, "--json").rows[0]["state"] == "pending"


def test_a_closed_standard_input_is_nobody_to_ask(dlq: Dlq, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    target = make([row(1), row(2)])
    monkeypatch.setattr("sys.stdin", None)
    assert dlq("dismiss", ONE, TWO, "--db", target, "--reason", "test").code == 0
    console = dlq("--db", target)
    assert (console.code, "needs a terminal" in console.err) == (2, True)


def test_init_says_what_stands_in_its_way(dlq: Dlq, tmp_path: Path, postgres_db: str) -> None:
    (tmp_path / "note.txt").write_text("no database\n" * 100)
    new = str(tmp_path / "new.db")
    for words, code, said in (
        ((str(tmp_path / "note.txt"),), 5, "is not a SQLite database"),
        ((str(tmp_path),), 5, "is a directory"),
        ((str(tmp_path / "no" / "such.db"),), 5, "there is no directory"),
        ((new, "--table", "trading.dead"), 2, "has no schemas"),
        ((new, "--read-only"), 4, "--read-only"),
        ((postgres_db, "--table", "trading.dead"), 2, "has no schema trading"),
    ):
        ran = dlq("init", "--db", *words)
        assert (ran.code, ran.err.count("\n")) == (code, 1)
        assert said in ran.err
    assert not Path(new).exists()
    assert dlq("init", "--db", new, "--table", "main.dead").code == 0
    assert dlq("list", "--db", new, "--table", "main.dead").code == 0


def test_init_makes_a_guarded_store_once(dlq: Dlq, tmp_path: Path, postgres_db: str) -> None:
    for target in (str(tmp_path / "new.db"), postgres_db):
        assert dlq("init", "--db", target).code == 0
        again = dlq("init", "--db", target)
        assert again.code == 2
        assert "already" in again.err
        assert dlq("list", "--db", target).out == ""


def test_a_missing_store_is_named_and_not_made(dlq: Dlq, tmp_path: Path) -> None:
    ran = dlq("list", "--db", str(tmp_path / "nope.db"))
    assert ran.code == 5
    assert "no such file" in ran.err
    assert not (tmp_path / "nope.db").exists()


def test_the_target_can_come_from_the_environment_or_the_config(
    dlq: Dlq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = sqlite_store(tmp_path / "orders.db", [row(1)])
    config = tmp_path / "config.toml"
    config.write_text(f'[stores.prod]\nurl = "{target}"\n')
    assert len(dlq("list", "--json", "--db", "prod", "--config", str(config)).rows) == 1
    monkeypatch.setenv("DLQ_DB", target)
    assert len(dlq("list", "--json").rows) == 1
    monkeypatch.delenv("DLQ_DB")
    assert dlq("list").code == 2


@pytest.mark.parametrize(
    "words", [(), ("list",), ("replay", "x"), ("reconcile",)], ids=["console", "list", "replay", "reconcile"]
)
def test_a_wrong_setting_of_a_store_ends_every_command_alike(dlq: Dlq, tmp_path: Path, words: tuple[str, ...]) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[stores.desk]\nurl = "postgresql://nobody@127.0.0.1:1/x"\nhub_wait = "long"\n')
    ran = dlq(*words, "--db", "desk", "--config", str(config))
    says = "stores.desk.hub_wait must be a number of seconds above 0 and at most 3600"
    assert (ran.code, ran.out, ran.err) == (2, "", f"dlq: {config}: {says}\n")


def test_a_misspelt_limit_is_an_error(dlq: Dlq, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[limits]\nmax_notionl = 5\n")
    ran = dlq("list", "--db", "x", "--config", str(config))
    assert ran.code == 2
    assert "max_notionl" in ran.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_know_every_verb(dlq: Dlq, shell: str) -> None:
    script = dlq("completions", shell).out
    for word in ("reconcile", "dismiss", "practice"):
        assert word in script
