"""Wrong changes to how an outbox's messages are requeued, told apart and followed."""

from __future__ import annotations

from tests.faults.mutants_data import File, Mutation

_requeue = File("backends/sql/other/requeue.py")
_acts = File("backends/sql/other/acts.py")
_lineage = File("backends/sql/other/lineage.py")
_target = File("console/services/resend/target.py")

OUTBOX: tuple[Mutation, ...] = (
    _requeue.but(
        "any row of the id",
        'then = f"{verbatim(born)} {EQ} CAST(:born AS pg_catalog.text)"',
        'then = f"CAST(:born AS pg_catalog.text) {EQ} CAST(:born AS pg_catalog.text)"',
        "outbox_twins::test_a_replay_takes_the_row_that_is_named",
    ),
    _requeue.but(
        "one of two equal rows",
        "if len(mine) > 1:",
        "if False:",
        "outbox_twins::test_rows_that_nothing_tells_apart_are_refused",
    ),
    _requeue.but(
        "a swallowed row is handled",
        "        if made is not None:\n            return str(made)",
        "        if made is not None or found:\n            return str(made)",
        "outbox_replay::test_an_outbox_that_swallows_the_row_is_told_as_that",
    ),
    _requeue.but(
        "halt does not hold",
        "if await tx.is_halted():",
        "if False:",
        "outbox_replay::test_halt_stops_a_batch",
    ),
    _requeue.but(
        "handled twice",
        'if mine[0]["state"] != "pending":',
        "if False:",
        "outbox_replay::test_a_dismissed_or_changed_entry_is_not_sent",
    ),
    _acts.but(
        "both rows of an id",
        " AND {verbatim(select.alone)}",
        "",
        "outbox_twins::test_rows_that_nothing_tells_apart_are_refused",
    ),
    _lineage.but(
        "another message's headers",
        "return all(one is None or other is None or one == other for one, other in pairs)",
        "return True",
        "outbox_lineage::test_headers_handed_on_to_another_message_make_it_no_return",
    ),
    _lineage.but(
        "any row of that number",
        "same = message.digest is None or attempt.payload_hash == message.digest",
        "same = True",
        "outbox_lineage::test_an_outbox_made_anew_gives_its_row_ids_again_to_other_messages",
    ),
    _lineage.but(
        "a clear of an ancestor counts for nothing",
        "line[last + 1 :]",
        "line",
        "outbox_lineage::test_errors_of_ancestors_count_until_a_person_clears_them",
    ),
    _target.but(
        "poison goes",
        "{} if overridden else bad)",
        "{})",
        "outbox_returns::test_poison_is_refused_left_out_of_a_batch_overridden_with_a_note_and_cleared",
    ),
)
