"""Filters on the command line: one language, its flags, and errors that do nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.conftest import Dlq, Make, Ran
from tests.support.orders import row


def numbers(ran: Ran) -> str:
    assert ran.code == 0, ran.err
    return "".join(sorted(str(one["dlq_id"])[-1] for one in ran.rows))  # their order differs by engine


@pytest.fixture
def target(make: Make) -> str:
    old = datetime.now(UTC) - timedelta(hours=2)
    wanted = {"venue_name": "Kalshi", "side": "sell", "quantity": 100000.0, "price": 0.9, "captured_at": old}
    fresh = {"captured_at": datetime.now(UTC)}
    return str(
        make(
            [
                row(1, **wanted),
                row(2, **(wanted | {"error": "ReadTimeout"})),
                row(3, **(wanted | {"side": "buy"})),
                row(4, **(wanted | fresh)),
                row(5, **(wanted | {"quantity": 10.0})),
                row(6, **(wanted | {"venue_name": "alpaca", "account_id": None})),
                row(7, dismissed=True),
            ]
        )
    )


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--filter", "venue:kalshi side:sell notional>50k age>1h !timeout"], "1"),
        (["--filter", "!venue:kalshi"], "6"),
        (["--filter", "-venue:kalshi"], "6"),
        (["-f", "-venue:kalshi -account:main"], "6"),
        (["--venue", "KALSHI", "--side", "buy"], "3"),
        (["--venue", "kal*"], ""),
        (["--account", ""], "6"),
        (["--search", "readTIMEOUT"], "2"),
        (["--search", "dlq_000000000000000"], ""),
        (["--search", "DLQ_0000000000000003"], "3"),
        (["--state", "dismissed"], "7"),
        (["--state", "ALL", "--venue", "alpaca"], "67"),
        (["--all", "--filter", "venue:alpaca"], "67"),
        (["--all", "--filter", "state:open venue:alpaca"], "6"),
        (["--search=--"], ""),
        (["--filter=--"], ""),
        (["--since", "1h"], "4"),
        (["--category", "TRANSIENT", "--filter", "error:timeout"], "2"),
    ],
)
def test_what_the_filters_list(dlq: Dlq, target: str, arguments: list[str], found: str) -> None:
    assert numbers(dlq("list", "--db", target, "--json", *arguments)) == found


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--filter", "try>2"], "did you mean tries?"),
        (["--filter", "venu:x"], "put it in quotes to search it as text"),
        (["--venue", "x", "--filter", "venue:y"], "twice"),
        (["--filter", "venue:kalshi", "-f", "side:sell"], "--filter is given twice: write all its words in one"),
        (["--venue", "kalshi", "--queue", "alpaca"], "--venue is given twice: keep one, or say both in --filter"),
        (["--state", "lost"], "no state lost"),
        (["--category", "odd"], "no category odd"),
        (["--state=--"], "no state --"),
        (["--since", "soon"], 'since:"soon" is not a time: write since:8h'),
        (["--filter", 'error:"x'], "not closed"),
    ],
)
def test_an_error_ends_with_2_and_nothing_is_done(dlq: Dlq, target: str, arguments: list[str], says: str) -> None:
    ran = dlq("list", "--db", target, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err
    ran = dlq("dismiss", "--db", target, "--reason", "test", "--expect", "1", "--yes", *arguments)
    assert ran.code == 2
    assert numbers(dlq("list", "--db", target, "--json")) == "123456"


def test_acts_take_filters_with_the_number_that_is_meant(dlq: Dlq, target: str) -> None:
    filters = ["--filter", "!venue:kalshi", "--yes", "--json"]
    assert dlq("dismiss", "--db", target, "--reason", "test", *filters).code == 2
    assert dlq("dismiss", "--db", target, "--reason", "test", "--expect", "1", *filters).code == 0
    settled = dlq("list", "--db", target, "--json", "--all", "--filter", "reason:TEST operator:*")
    assert numbers(settled) == "6"
    assert dlq("restore", "--db", target, "--filter", "reason:test", "--expect", "1", "--yes").code == 0
    assert numbers(dlq("list", "--db", target, "--json", "--all", "--filter", "reason:test")) == ""
    assert numbers(dlq("list", "--db", target, "--json", "--all", "--filter", '!operator:""')) == "6"
