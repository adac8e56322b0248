"""Wrong changes to what settles an order in doubt, and what only asks."""

from __future__ import annotations

from tests.faults.mutants_data import File, Mutation

_reconcile = File("console/services/evidence/reconcile.py")
_settle = File("console/services/evidence/settle.py")
_ask = File("console/services/evidence/ask.py")
_question = File("console/services/evidence/entry_question.py")

SETTLING: tuple[Mutation, ...] = (
    _reconcile.but(
        "asks live about a paper attempt",
        'mode: Mode = "live" if attempt.mode == "live" else "paper"\n        at = ',
        'mode: Mode = "live"\n        at = ',
        "send_path_evidence::test_an_attempt_is_asked_about_in_its_own_mode_and_account",
    ),
    _reconcile.but(
        "asks paper about a live attempt",
        'mode: Mode = "live" if attempt.mode == "live" else "paper"\n        at = ',
        'mode: Mode = "paper"\n        at = ',
        "send_path_evidence::test_an_attempt_is_asked_about_in_its_own_mode_and_account",
    ),
    _reconcile.but(
        "takes it from its owner",
        "owned = attempt.outcome is None and attempt.lease_until > now.timestamp()",
        "owned = False",
        "reconcile::test_in_flight_and_absent_waits_for_lease_and_window",
    ),
    _reconcile.but(
        "another account's answer counts",
        'if match == "other":',
        "if False:",
        "reconcile::test_another_account_is_no_evidence",
    ),
    _reconcile.but(
        "absent by another key",
        '        elif match == "unsure":',
        "        elif False:",
        "reconcile::test_where_the_venue_tells_no_account_the_key_decides_what_absence_proves",
    ),
    _reconcile.but(
        "one look-up is enough",
        "LOOK_UPS = 3 ",
        "LOOK_UPS = 1 ",
        "reconcile::test_one_look_up_that_shows_it_outweighs_two_that_do_not",
    ),
    _reconcile.but(
        "the window begins with the send",
        "return attempt.started_at, attempt.finished_at",
        "return attempt.started_at, None",
        "reconcile::test_the_window_counts_from_the_end_of_the_send",
    ),
    _reconcile.but(
        "the window begins with the oldest",
        "return max(filter(None, (captured, *tried)), default=None), captured",
        "return min(filter(None, (captured, *tried)), default=None), captured",
        "reconcile::test_the_window_counts_from_the_end_of_the_send",
    ),
    _reconcile.but(
        "a different order settles it",
        'return Settled("unknown", text, Result("unknown", order_id, text, text))',
        'return Settled("accepted", text, Result("accepted", order_id, text, text))',
        "reconcile::test_found_and_different_stays_in_doubt_for_a_person",
    ),
    _reconcile.but(
        "an unclear answer takes it from its owner",
        'None if word.is_owned else Result("unknown", order_id, text, text))',
        'Result("unknown", order_id, text, text))',
        "lookup_verdict::test_an_unclear_status_does_not_take_the_attempt_from_its_owner",
    ),
    _reconcile.but(
        "absent although nothing proves it",
        "            if word.absence_gap is not None:\n",
        "            if False:\n",
        "reconcile::test_absent_only_after_the_window",
    ),
    _reconcile.but(
        "absent at a venue that cannot be asked",
        'if verdict.kind == "absent" and not client.profile.lookup:',
        "if False:",
        "reconcile::test_a_venue_that_cannot_be_asked_settles_nothing",
    ),
    _reconcile.but(
        "Retry-After is not held",
        "pace.hold(verdict.retry_after or 0.0)",
        "pace.hold(0.0)",
        "send_path_evidence::test_a_reconciliation_slows_down_as_it_is_asked_to",
    ),
    _reconcile.but(
        "asks with the venue's own keys",
        "at = VenueAccount(attempt.venue, prepared.action.account_id or None)",
        "at = VenueAccount(attempt.venue, None)",
        "send_path_evidence::test_an_attempt_is_asked_about_in_its_own_mode_and_account",
    ),
    _reconcile.but(
        "an older order settles it",
        "sure=gap is None, not_before=earliest(captured))",
        "sure=gap is None, not_before=None)",
        "send_path_evidence::test_an_order_from_before_the_entry_settles_nothing",
    ),
    _reconcile.but(
        "what has ended stays in doubt",
        'case "ours" | "ended":\n            return Settled("accepted"',
        'case "ours" | "ended":\n            return Settled("rejected"',
        "reconcile::test_found_by_its_status",
    ),
    _reconcile.but(
        "asks about both modes",
        "if one.mode == mode and (not ids or one.entry_id in ids))",
        "if not ids or one.entry_id in ids)",
        "reconcile::test_only_the_mode_that_was_sent_in_is_asked",
    ),
    _reconcile.but(
        "asks about every entry",
        "if one.mode == mode and (not ids or one.entry_id in ids))",
        "if one.mode == mode)",
        "send_path_evidence::test_only_the_entries_that_were_named_are_asked_about",
    ),
    _settle.but(
        "one person is enough",
        "if self._two_people(attempt):",
        "if False:",
        "settle_ask::test_live_needs_a_second_person_for_these_very_words",
    ),
    _settle.but(
        "the venue's answer does not count",
        'if told.result is not None and told.word in ("accepted", "rejected", "not_sent"):',
        "if False:",
        "settle_ask::test_where_the_venue_answers_clearly_nobody_says_otherwise",
    ),
    _settle.but(
        "any order id will do",
        "other_order = request.order is not None and result.venue_order_id not in (None, request.order)",
        "other_order = False",
        "settle_ask::test_another_order_than_the_venues_is_refused",
    ),
    _settle.but(
        "the contrary of the venue's answer",
        "if told.word != _OUTCOMES[request.claimed] or other_order:",
        "if other_order:",
        "settle_ask::test_where_the_venue_answers_clearly_nobody_says_otherwise",
    ),
    _settle.but(
        "taken from its owner",
        "if attempt.outcome is None and attempt.lease_until > now:",
        "if False:",
        "send_path_evidence::test_what_is_still_being_sent_is_not_settled_by_a_person",
    ),
    _settle.but(
        "the other mode's attempt",
        "meant = [one for one in opened if request.mode in (None, one.mode)]",
        "meant = list(opened)",
        "send_path_evidence::test_of_two_in_doubt_a_person_settles_the_live_one_or_the_one_that_is_meant",
    ),
    _settle.but(
        "the paper one first",
        '(one.mode != "live", one.rehearsal',
        '(one.mode == "live", one.rehearsal',
        "send_path_evidence::test_of_two_in_doubt_a_person_settles_the_live_one_or_the_one_that_is_meant",
    ),
    _settle.but(
        "absent is accepted",
        'if request.claimed == "accepted":',
        "if True:",
        "settle_ask::test_one_person_settles_in_paper_where_the_venue_cannot_be_asked",
    ),
    _ask.but(
        "the later clock proves absence",
        "now = min(self._clock(), await self._store.clock())",
        "now = max(self._clock(), await self._store.clock())",
        "send_path_evidence::test_asking_believes_the_clock_that_makes_it_younger_and_no_older_order",
    ),
    _question.but(
        "absent by an id it was not sent with",
        'if fitted.action.verb == "new" and not fitted.own_id:',
        "if False:",
        "settle_ask::test_absent_is_said_only_where_absence_counts",
    ),
    _ask.but(
        "absent at a venue that cannot be asked",
        'if verdict.kind == "absent" and not client.profile.lookup:',
        "if False:",
        "settle_ask::test_absent_is_said_only_where_absence_counts",
    ),
    _ask.but(
        "absent although nothing proves it",
        "if word.absence_gap is not None:",
        "if False:",
        "settle_ask::test_absent_is_said_only_where_absence_counts",
    ),
    _ask.but(
        "the other mode's attempt",
        "if one.mode == mode and payload.decode(one.payload)",
        "if payload.decode(one.payload)",
        "send_path_evidence::test_an_entry_is_asked_about_by_the_attempt_of_that_mode",
    ),
    _ask.but(
        "an older order is the entry's",
        "judge(command.action, found, not_before=earliest(command.captured_at))",
        "judge(command.action, found)",
        "send_path_evidence::test_asking_believes_the_clock_that_makes_it_younger_and_no_older_order",
    ),
    _ask.but(
        "equal whatever differs",
        "equal=not other,",
        "equal=True,",
        "settle_ask::test_what_differs_is_told",
    ),
)
