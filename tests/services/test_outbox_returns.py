"""A message that comes back says so in list, show and replay, and is poison when it fails in one way too often."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.outbox import BASE, dead_row
from tests.support.outbox_desk import BAD, Desk


@pytest.fixture
def desk(postgres_db: str, tmp_path: Path) -> Desk:
    return Desk.made(postgres_db, tmp_path)


def test_list_and_show_say_what_it_was_before(desk: Desk) -> None:
    third = desk.replay(desk.replay("1", "KeyError('a')"))
    rows = {row["dlq_id"]: row["came_back"] for row in (desk("list", "--json")).rows}
    assert rows == {"2": 0, third: 2}
    told = (desk("list")).out.splitlines()
    assert [line for line in told if "back" in line] == ["  came back 2 times"]
    shown = (desk("show", third, "--json")).row
    assert shown["came_back"] == 2
    first, second = shown["ancestors"]
    assert (first["dlq_id"], first["failed_at"], first["reason"]) == (
        "1",
        "2026-04-18T14:32:16+00:00",
        "retry_terminal",
    )
    assert (second["exception"], second["gone"]) == ("KeyError('a')", False)
    assert first["operator"] == second["operator"] != ""
    assert first["replayed_at"] < second["replayed_at"]
    lines = (desk("show", third)).out
    assert "came back 2 times; before that it was\nancestor 1: failed 2026-04-18T14:32:16Z retry_terminal" in lines
    assert (desk("show", "2", "--json")).row["ancestors"] == []


def test_ancestors_that_are_deleted_are_told_from_the_ledger(desk: Desk) -> None:
    desk.console.store["delete_after_replay"] = True
    third = desk.replay(desk.replay("1"))
    lines = (desk("show", third)).out
    assert f"ancestor 1: failed 2026-04-18T14:32:16Z retry_terminal {BAD} (its row is gone); replayed" in lines
    gone = (desk("show", "3", "--json")).row
    assert [one["dlq_id"] for one in gone["ancestors"]] == ["1"]


def test_poison_is_refused_left_out_of_a_batch_overridden_with_a_note_and_cleared(desk: Desk) -> None:
    third = desk.replay(desk.replay("1"))
    assert [row["dlq_id"] for row in (desk("list", "--filter", "mark:poison", "--json")).rows] == [third]
    refused = desk("replay", third, "--json")
    assert (refused.code, refused.row["outcome"]) == (4, "refused")
    assert refused.row["detail"] == "poison: failed 3 times in the same way"
    batch = desk("replay", "--filter", "queue:orders", "--expect", "2", "--yes", "--json")
    assert (batch.code, batch.outcomes) == (4, {third: "refused", "2": "accepted"})
    assert (desk("replay", third, "--override", "poison")).code == 2
    assert (desk("replay", third, "--override", "stale", "--note", "x")).code == 2
    desk.sql("DELETE FROM outbox")
    overridden = desk("replay", third, "--override", "poison", "--note", "mended", "--json")
    assert overridden.outcomes == {third: "accepted"}
    audit = (desk("show", third, "--json")).row["audit"]
    assert {event["note"] for event in audit if event["kind"] == "outcome"} == {"override poison: mended"}
    fourth = desk.fail_again()
    assert (desk("restore", fourth, "--note", "mended at last")).code == 0
    assert (desk("replay", fourth, "--json")).outcomes == {fourth: "accepted"}
    fifth = desk.fail_again()
    assert (desk("replay", fifth, "--json")).outcomes == {fifth: "accepted"}


def test_different_errors_are_no_poison(desk: Desk) -> None:
    third = desk.replay(desk.replay("1", "KeyError('a')"), "TimeoutError('slow')")
    assert (desk("replay", third, "--json")).outcomes == {third: "accepted"}


def test_a_replay_is_told_in_the_words_of_messages(desk: Desk) -> None:
    desk.replay("1")
    (attempt,) = [line for line in desk("show", "1").out.splitlines() if line.startswith("attempt")]
    assert re.fullmatch(r"attempt 1: \S+Z to orders accepted row 1 key c-1 by \S+", attempt)
    assert desk("restore", "1").err == "dlq: 1: is replayed: that cannot be taken back\n"
    assert desk("ask", "2").err == "dlq: this store's entries have no venue that could be asked\n"


def test_doctor_says_who_prunes(desk: Desk) -> None:
    assert "retention  only its owner deletes dead letters: docs/outbox.md" in desk("doctor").out


def test_a_return_is_no_arrival_of_the_shift(desk: Desk) -> None:
    third = desk.replay(desk.replay("1"))
    report = desk("report", "--since", "2026-04-18T00:00:00Z", "--json").row
    assert (report["arrived"]["count"], report["returned"]) == (2, 2)
    assert report["arrived"]["by_venue"] == {"orders": 2}
    assert "Another 2 came back: replayed before, and failed again." in desk("report", "--since", "9000h").out
    desk.sql(f"DELETE FROM outbox_dlq WHERE id <> {third}")
    alone = desk("report", "--since", "2026-04-18T00:00:00Z", "--json").row
    assert (alone["arrived"]["count"], alone["returned"]) == (0, 1)


def test_a_repeated_id_is_refused_by_every_verb_and_its_names_are_taken(desk: Desk) -> None:
    desk.sql("DROP TABLE outbox_dlq")
    asyncio.run(desk.rig.partitioned())
    rows = dead_row(1, id=1), dead_row(5, id=1, failed_at=BASE + timedelta(seconds=5))
    asyncio.run(desk.rig.dead(*rows))
    old, new = "1@2026-04-18T14:32:16Z", "1@2026-04-18T14:32:20Z"
    assert [row["dlq_id"] for row in (desk("list", "--json")).rows] == [old, new]
    for words in (
        ("show", "1"),
        ("replay", "1"),
        ("dismiss", "1", "--reason", "test"),
        ("restore", "1"),
        ("reconcile", "1"),
        ("settle", "1", "--as", "absent", "--note", "x", "--yes"),
        ("ask", "1"),
    ):
        ran = desk(*words)
        assert ran.code == 2, words
        assert ran.err == f"dlq: 2 entries have the id 1: say which, {old}, {new}\n"
    assert (desk("dismiss", new, "--reason", "test")).out == f"dismissed {new}\n"
    assert (desk("replay", old, "--json")).outcomes == {old: "accepted"}
    assert (desk("restore", new)).out == f"restored {new}\n"
    assert (desk("show", old, "--json")).row["entry"]["state"] == "replayed"
    (row,) = asyncio.run(desk.rig.outbox_rows())
    assert json.loads(row["payload"]) == {"n": 1}
