"""What people mistype: one line on stderr that names the remedy, the right exit code, nothing on stdout."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Dlq, fetch
from tests.support.orders import row, sqlite_store

# What is typed (S is a store with three entries, A the id of one, BYTES what is no UTF-8, LONG a long name), the exit
# code, and what the line must name.
CASES = r"""
lst                                                         | 2 | did you mean list?
replya A --paper --db S                                     | 2 | did you mean replay?
frobnicate                                                  | 2 | dlq help lists the verbs
--databse x list                                            | 2 | did you mean --db?
--red-only list --db S                                      | 2 | did you mean --read-only?
list                                                        | 2 | --db TARGET or set DLQ_DB
doctor                                                      | 2 | --db TARGET or set DLQ_DB
list --db                                                   | 2 | --db needs a value
list --db nowhere.db                                        | 5 | dlq init --db nowhere.db
check --db nowhere.db                                       | 5 | dlq init --db nowhere.db
index --db nowhere.db                                       | 5 | dlq init --db nowhere.db
list --db 'my orders.db'                                    | 5 | dlq init --db 'my orders.db' would make
list --db none.db                                           | 5 | none.db is empty: dlq init --db none.db makes
list --db .                                                 | 5 | is a directory, not a SQLite file
list --db /dev/null                                         | 5 | is not a file
list --db text.txt                                          | 5 | is not a SQLite database
list --db postgresql://nobody@127.0.0.1:1/x                 | 5 | is the server up, and are host and port right?
list --db postgres:/x                                       | 2 | expected postgresql://user@host:port/database
list --db S --fliter x                                      | 2 | did you mean --filter?
list --db S --colour                                        | 2 | dlq list --help lists them
list --db S --read-only=yes                                 | 2 | --read-only takes no value
list --db S --s x                                           | 2 | write it out in full
list --db S foo                                             | 2 | dlq list --help says what it takes
list --db S --limit                                         | 2 | --limit needs a value
list --db S --limit many                                    | 2 | --limit takes a whole number
list --db S --limit -1                                      | 2 | --limit must not be negative
list --db S --filter vanue:x                                | 2 | did you mean venue?
list --db S --filter venue:                                 | 2 | needs a value
list --db S --filter 'a"'                                   | 2 | a quote is not closed
list --db S --filter 'age>soon'                             | 2 | age>
list --db S --since yesterdayish                            | 2 | write since:8h
list --db S --state pendign                                 | 2 | there are pending in_flight
list --db S --category weird                                | 2 | there are transient schema
list --db S --table nosuch                                  | 2 | there are: order_dlq
list --db S -o yaml                                         | 2 | there are: json csv table
list --db S --json -o csv                                   | 2 | say one of them
list --db S --watch                                         | 2 | leave it out
list --db S --watch --json                                  | 2 | leave out json
groups --db S --watch                                       | 2 | leave it out
list --db S --config nope.toml                              | 2 | --config or DLQ_CONFIG names it
list --db S --config bad.toml                               | 2 | at line 1
list --db S --config misspelt.toml                          | 2 | did you mean max_notional?
list --db S --config type.toml                              | 2 | it must be a whole number, not text
list --db S --config keys.toml                              | 2 | did you mean dismiss?
list --db S --config views.toml                             | 2 | views.late: no field agee
list --db S --config moved.toml                             | 2 | moved.toml: keymap.dismiss: "??" is not a key
list --db S --config reasons.toml                           | 2 | reasons must be a list of words
list --db S --config blank.toml                             | 2 | reasons must be a list of words
list --db S --config latin.toml                             | 2 | it is not UTF-8 text
list --db S --config mode.toml                              | 2 | must be "paper" or "live", not "papr"
list --db S --config half.toml                              | 2 | it must be a whole number, not a number with decimals
list --db S --config slow.toml                              | 2 | above 0 and at most 300 seconds
list --db S --config amount.toml                            | 2 | must be an amount, such as 50000
list --db S --config early.toml                             | 2 | must be between 0 and 86400
show                                                        | 2 | ID is missing
show '' --db S                                              | 2 | no such entry: ""; nothing was done
show xyz --db S                                             | 2 | no such entry: xyz; nothing was done, dlq list --all
show A extra --db S                                         | 2 | does not take extra
groups --db S --group zzz                                   | 0 | no entry is in the group zzz: dlq groups lists
groups --db S --venue nasdaq                                | 0 | no entry matches; --all includes
export --db S                                               | 2 | --format is missing: csv jsonl
export --db S --format xls                                  | 2 | there are: csv jsonl
audit                                                       | 2 | ACTION is missing: verify export
audit verfy --db S                                          | 2 | did you mean verify?
audit verify --db S --head nonsense                         | 2 | COUNT:HASH
audit export --db S --head 1:ab                             | 2 | --head is for audit verify
report --db S --since 2999-01-01                            | 2 | --since 2999-01-01 is in the future
report --db S --since whenever                              | 2 | write 8h
archive --db S                                              | 2 | say --before DATE and --out FILE; or --verify FILE
archive --db S --before 30d                                 | 2 | say --before DATE and --out FILE; or --verify FILE
archive --db S --before soon --out a.zip                    | 2 | write 8h
archive --db S --before 30d --out taken.zip                 | 2 | name another file
archive --db S --before 30d --out no/such/a.zip             | 2 | its folder does not exist
archive --db S --before 30d --out .                         | 2 | is a folder: name a file in it
archive --db S --before 30d --out LONG                      | 2 | File name too long
archive --verify nope.zip                                   | 2 | nope.zip: no such file
archive --verify text.txt                                   | 2 | is not a bundle that dlq archive wrote
archive --verify .                                          | 2 | is not a file
metrics --db S --listen here                                | 2 | HOST:PORT, or a port alone
metrics --db S --listen 127.0.0.1:99999                     | 2 | HOST:PORT, or a port alone
dismiss --db S --reason test                                | 2 | give ids, or filters with --expect N
dismiss A --db S                                            | 2 | say why with --reason CODE; there are: market-closed
dismiss A --db S --reason bored                             | 2 | there are: market-closed
dismiss A --db S --reason other                             | 2 | needs a --note
dismiss nope --db S --reason test                           | 2 | no such entry: nope
dismiss --db S --venue alpaca --reason test                 | 2 | say --expect 3
dismiss --db S --venue alpaca --reason test --expect 7      | 2 | 3 entries match, not 7
dismiss --db S --venue nasdaq --reason test                 | 2 | no entry matches
dismiss A --db S --venue alpaca --reason test               | 2 | give ids or filters, not both
dismiss A --db S --reason test --expect x                   | 2 | --expect takes a whole number
dismiss A --db S --reason test --read-only                  | 4 | leave out --read-only
restore --db S                                              | 2 | give ids, or filters with --expect N
restore nope --db S                                         | 2 | no such entry: nope
restore A --db S                                            | 4 | is pending, not dismissed
restore --db S --filter reason:stale                        | 2 | no entry matches
replay A --db S                                             | 2 | say --paper or --live
replay --db S --paper                                       | 2 | give ids, or filters with --expect N
replay A --db S --paper --live                              | 2 | say --paper or --live, not both
replay A --db S --live                                      | 2 | needs --yes
replay --db S --live --yes --filter venue:alpaca            | 2 | needs --expect N
replay A --db S --paper --override stale                    | 2 | needs a --note
replay A --db S --paper --override halt --note x            | 2 | these can: stale duplicate
reconcile --db S                                            | 2 | say --paper or --live
reconcile nope --paper --db S                               | 2 | no such entry: nope
settle --db S                                               | 2 | ID and --as are missing
settle A --db S --as gone                                   | 2 | there are: accepted absent
settle A --db S --as absent                                 | 2 | needs a --note
settle A --db S --as absent --order 7 --note x              | 2 | --as accepted
ask --db S --paper                                          | 2 | ID is missing
ask A --db S                                                | 2 | say --paper or --live
ask A --db S --paper --read-only                            | 4 | read-only
approve BYTES --db S                                        | 2 | waits here; dlq approve lists
approve '' --db S                                           | 2 | no plan "" waits here
approve nosuch --db S                                       | 2 | no plan nosuch waits here; dlq approve lists
policy set --db S                                           | 2 | KEY=VALUE
policy set =3 --db S                                        | 2 | "" is not a policy key; there are: environment
policy set max_batch=1 max_batch=2 --db S                   | 2 | max_batch is given twice: keep one
policy set max_bach=3 --db S                                | 2 | did you mean max_batch?
policy set max_batch=many --db S                            | 2 | it must be a whole number
policy get --db S                                           | 2 | there are: set
resume --db S                                               | 2 | --note TEXT
resume --db S --note x                                      | 4 | nothing to resume
secrets                                                     | 2 | ACTION is missing: set list check delete
secrets show alpaca                                         | 2 | there are: set list check delete
secrets set                                                 | 2 | which venue? alpaca
secrets set alpaca                                          | 2 | say --paper or --live
secrets set nasdaq --paper                                  | 2 | alpaca, kalshi
secrets set alpaca --paper --account ''                     | 2 | leave it out
secrets check provider/x                                    | 2 | cannot be asked
init --db S                                                 | 2 | nothing was made
init --db nowhere/new.db                                    | 5 | there is no directory nowhere: make it first
init --db new.db --read-only                                | 4 | leave out --read-only
practice --port x                                           | 2 | --port takes a whole number
practice --port 99999                                       | 2 | 0 takes a free one
practice --ledger .                                         | 2 | cannot use the ledger .: Is a directory
practice --script nope.json                                 | 2 | cannot use the script nope.json
serve --host 0.0.0.0 --db S                                 | 2 | use a tunnel
serve --port 99999 --db S                                   | 2 | 0 takes a free one
serve --consoles 0 --db S                                   | 2 | at least 1
help replya                                                 | 2 | did you mean replay?
completions ''                                              | 2 | does not know ""; there are: bash zsh fish
completions tcsh                                            | 2 | there are: bash zsh fish
completions                                                 | 2 | SHELL is missing: bash zsh fish
"""
TABLE = [tuple(part.strip() for part in line.split(" | ")) for line in CASES.strip().splitlines()]
FILES = {
    "bad.toml": "[limits\n",
    "misspelt.toml": "[limits]\nmax_notionl = 1\n",
    "type.toml": '[limits]\nmax_batch = "ten"\n',
    "views.toml": '[views]\nold = "venue:kalshi age>1h"\nlate = "agee>1h"\n',
    "keys.toml": '[keymap]\ndismis = "X"\n',
    "early.toml": "[venues.alpaca]\nvisibility_seconds = -1\n",
    "moved.toml": '[keymap]\ndismiss = "??"\n',
    "reasons.toml": "reasons = [1, { a = 2 }]\n",
    "blank.toml": 'reasons = [" "]\n',
    "mode.toml": '[stores.x]\nurl = "x.db"\nmode = "papr"\n',
    "half.toml": "[limits]\nplan_seconds = 1.5\n",
    "slow.toml": "[venues.alpaca]\ntimeout = 0\n",
    "amount.toml": "[limits]\nmax_notional = -1\n",
    "latin.toml": "# für alle\n",
    "none.db": "",
    "text.txt": "hello",
    "taken.zip": "x",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrong")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="latin-1")
        (folder / name).chmod(0o600)
    sqlite_store(folder / "orders.db", [row(n) for n in (1, 2, 3)])
    return folder


@pytest.mark.parametrize(("typed", "code", "remedy"), TABLE, ids=[typed for typed, _, _ in TABLE])
def test_a_mistake_is_answered_with_its_remedy(
    dlq: Dlq, place: Path, monkeypatch: pytest.MonkeyPatch, typed: str, code: str, remedy: str
) -> None:
    monkeypatch.chdir(place)
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        swapped = {"S": str(place / "orders.db"), "A": f"dlq_{1:016x}", "BYTES": "\udcff\udcfe", "LONG": "x" * 250}
        ran = dlq(*(swapped.get(word, word) for word in shlex.split(typed)))
    assert (ran.code, ran.out) == (int(code), ""), ran.err
    assert ran.err.startswith("dlq: ")
    assert len(ran.err.splitlines()) == 1, ran.err
    assert not re.search(r"\S  |\.$|\[Errno|<class|\bNone\b", ran.err), "a gap, a full stop or Python's own words"
    assert remedy in ran.err
    assert "Traceback" not in ran.err
    assert len(ran.err) < 240 or "LONG" in typed


def test_nothing_came_of_them(place: Path) -> None:
    assert len(TABLE) >= 60
    store = str(place / "orders.db")
    assert fetch(store, "SELECT count(*), sum(retry_count), sum(dismissed) FROM order_dlq") == [(3, 0, 0)]
    made = {one.name for one in place.iterdir()} - {"orders.db", "orders.db-wal", "orders.db-shm", *FILES}
    assert not made
