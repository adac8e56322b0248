"""Wrong changes to what a look-up proves, and the engine's own venue."""

from __future__ import annotations

from tests.faults.mutants_data import File, Mutation

_absence = File("console/services/evidence/absence.py")
_ask_first = File("console/services/evidence/ask_first.py")
_lookup_verdict = File("console/services/evidence/lookup_verdict.py")
_payload = File("console/services/evidence/payload.py")
_own_venue = File("console/services/engine/own_venue.py")

EVIDENCE: tuple[Mutation, ...] = (
    _absence.but(
        "another account is only unsure",
        'return "same" if attempt.account == account else "other"',
        'return "same" if attempt.account == account else "unsure"',
        "lookup_verdict::test_whose_account_answers",
    ),
    _absence.but(
        "another account is the same",
        'return "same" if attempt.account == account else "other"',
        'return "same"',
        "lookup_verdict::test_whose_account_answers",
    ),
    _absence.but(
        "another key is the same",
        'attempt.key_digest == key_digest else "unsure"',
        'attempt.key_digest == key_digest else "same"',
        "lookup_verdict::test_whose_account_answers",
    ),
    _absence.but(
        "no key is the same key",
        "if attempt.key_digest and attempt.key_digest ==",
        "if attempt.key_digest ==",
        "lookup_verdict::test_whose_account_answers",
    ),
    _absence.but(
        "the window proves absence",
        "    if now < ends:\n",
        "    if False:\n",
        "lookup_verdict::test_when_not_found_proves_anything",
    ),
    _absence.but(
        "a gateway shows all days",
        'if reach == "day" and not _is_same_day(sent_at, now):',
        "if False:",
        "lookup_verdict::test_when_not_found_proves_anything",
    ),
    _absence.but(
        "one zone's day is enough",
        "return all(sent_at.astimezone",
        "return any(sent_at.astimezone",
        "lookup_verdict::test_when_not_found_proves_anything",
    ),
    _absence.but(
        "nobody knows when, so it is absent",
        'return "it is not known when it may have been sent"',
        "return None",
        "lookup_verdict::test_when_not_found_proves_anything",
    ),
    _absence.but(
        "an engine sends at the capture",
        "captured_at - BEFORE_CAPTURE",
        "captured_at",
        "lookup_verdict::test_an_order_from_long_before_the_entry_is_not_the_entrys",
    ),
    _absence.but(
        "any older order will do",
        "captured_at - BEFORE_CAPTURE",
        "None",
        "lookup_verdict::test_an_order_from_long_before_the_entry_is_not_the_entrys",
    ),
    _ask_first.but(
        "what has ended is sent again",
        'case "ended" | "conflict" | "unclear":\n            return GiveUp("refused", verdict.text)',
        'case "ended" | "conflict" | "unclear":\n            return Send()',
        "send_path_evidence::test_a_new_order_goes_only_where_nothing_stands_against_it",
    ),
    _ask_first.but(
        "what was refused is sent again",
        'return _adopted(verdict, Result("rejected", verdict.order_id, verdict.text))',
        "return Send()",
        "send_path_evidence::test_a_new_order_goes_only_where_nothing_stands_against_it",
    ),
    _ask_first.but(
        "what is not shown yet is sent",
        "if gap is None or overridden:",
        "if True:",
        "send_path_evidence::test_a_new_order_goes_only_where_nothing_stands_against_it",
    ),
    _ask_first.but(
        "an override does not help what is not shown",
        "if gap is None or overridden:",
        "if gap is None:",
        "send_path_evidence::test_a_new_order_goes_only_where_nothing_stands_against_it",
    ),
    _ask_first.but(
        "no answer, and sent",
        "return Send() if overridden else unanswered(",
        "return Send() if True else unanswered(",
        "send_path_evidence::test_no_answer_sends_nothing_unless_somebody_answers_for_it",
    ),
    _ask_first.but(
        "nothing to cancel, within the window",
        'case "absent" if verdict.order is None and gap is None:',
        'case "absent" if verdict.order is None:',
        "send_path_evidence::test_a_cancel_is_settled_only_by_an_order_that_is_surely_not_there",
    ),
    _ask_first.but(
        "nothing to cancel, though it is open",
        'case "absent" if verdict.order is None and gap is None:',
        'case "absent" if gap is None:',
        "send_path_evidence::test_a_cancel_is_settled_only_by_an_order_that_is_surely_not_there",
    ),
    _ask_first.but(
        "a cancel waits for an answer",
        'case "absent" | "unclear" | "no-answer":\n            return Send()',
        'case "absent" | "unclear" | "no-answer":\n            return GiveUp("not_sent", verdict.text)',
        "send_path_evidence::test_a_cancel_is_settled_only_by_an_order_that_is_surely_not_there",
    ),
    _ask_first.but(
        "replaced although it is so already",
        "if not differences(action, order):",
        "if False:",
        "send_path_evidence::test_a_replace_goes_to_an_open_order_that_is_not_so_already",
    ),
    _ask_first.but(
        "replaces what has ended",
        'if order.status not in ("open", "partly_filled"):',
        "if False:",
        "send_path_evidence::test_a_replace_goes_to_an_open_order_that_is_not_so_already",
    ),
    _ask_first.but(
        "a replace without an answer goes",
        'if aim.kind == "no-answer":',
        "if False:",
        "send_path_evidence::test_a_replace_goes_to_an_open_order_that_is_not_so_already",
    ),
    _ask_first.but(
        "a slow-down is a failure",
        "failed = verdict.retry_after is None",
        "failed = True",
        "send_path_evidence::test_no_answer_sends_nothing_unless_somebody_answers_for_it",
    ),
    _ask_first.but(
        "the arrival is not named",
        "    if may_have_arrived:\n",
        "    if False:\n",
        "send_path_evidence::test_no_answer_sends_nothing_unless_somebody_answers_for_it",
    ),
    _lookup_verdict.but(
        "any order under its id is ours",
        "    if other:\n",
        "    if False:\n",
        "lookup_verdict::test_a_different_order_is_a_conflict_whatever_its_status",
    ),
    _lookup_verdict.but(
        "an order of last year is ours",
        "order.created_at < not_before:",
        "False:",
        "lookup_verdict::test_an_order_from_long_before_the_entry_is_not_the_entrys",
    ),
    _lookup_verdict.but(
        "a part that filled is nothing",
        " or (order.filled is not None and order.filled > 0):",
        ":",
        "lookup_verdict::test_what_has_filled_in_part_is_ours_however_it_ended",
    ),
    _lookup_verdict.but(
        "rejected is ended",
        'return LookupVerdict("refused", shown, order)',
        'return LookupVerdict("ended", shown, order)',
        "lookup_verdict::test_an_equal_order_by_its_status",
    ),
    _lookup_verdict.but(
        "a cancel took effect on an open order",
        'return LookupVerdict("absent", f"{shown}: the cancel',
        'return LookupVerdict("ours", f"{shown}: the cancel',
        "lookup_verdict::test_a_cancel_has_succeeded_when_its_order_has_ended",
    ),
    _lookup_verdict.but(
        "a failed look-up shows nothing",
        'return LookupVerdict("no-answer", why, retry_after=retry_after)',
        'return LookupVerdict("absent", why)',
        "lookup_verdict::test_not_found_and_no_answer_are_not_the_same",
    ),
    _lookup_verdict.but(
        "Retry-After is lost",
        'return LookupVerdict("no-answer", why, retry_after=retry_after)',
        'return LookupVerdict("no-answer", why)',
        "lookup_verdict::test_not_found_and_no_answer_are_not_the_same",
    ),
    _lookup_verdict.but(
        "a pending cancel is none",
        ' or "cancel" in order.raw_status.lower()',
        "",
        "lookup_verdict::test_a_cancel_has_succeeded_when_its_order_has_ended",
    ),
    _lookup_verdict.but(
        "an unknown status is ours",
        'return LookupVerdict("unclear", shown, order)\n\n\ndef _cancelled',
        'return LookupVerdict("ours", shown, order)\n\n\ndef _cancelled',
        "lookup_verdict::test_an_equal_order_by_its_status",
    ),
    _lookup_verdict.but(
        "a filled order was cancelled",
        'return LookupVerdict("refused", f"{shown}: there is nothing',
        'return LookupVerdict("ours", f"{shown}: there is nothing',
        "lookup_verdict::test_a_cancel_has_succeeded_when_its_order_has_ended",
    ),
    _payload.but(
        "digits are lost",
        "str(value) if isinstance(value, Decimal) else value",
        "str(float(value)) if isinstance(value, Decimal) else value",
        "send_path_evidence::test_a_stored_request_comes_back_with_every_digit",
    ),
    _payload.but(
        "the fingerprint without the body",
        '\\n".encode() + prepared.body)',
        '\\n".encode())',
        "send_path_evidence::test_a_stored_request_comes_back_with_every_digit",
    ),
    _payload.but(
        "what cannot be read raises",
        "except (ValueError, KeyError, TypeError, ArithmeticError):",
        "except ArithmeticError:",
        "send_path_evidence::test_a_stored_request_comes_back_with_every_digit",
    ),
    _payload.but(
        "the price is text",
        '_DECIMALS = frozenset({"quantity", "price"})',
        '_DECIMALS = frozenset({"quantity"})',
        "send_path_evidence::test_a_stored_request_comes_back_with_every_digit",
    ),
    _own_venue.but(
        "paper unless it says live",
        'is True else "live"',
        'is True else "paper"',
        "send_path_evidence::test_an_engines_venue_is_live_unless_it_says_paper",
    ),
    _own_venue.but(
        "not found proves absence at once",
        "VISIBILITY_SECONDS = 60.0",
        "VISIBILITY_SECONDS = 0.0",
        "replay_order_lookup::test_absence_counts_only_after_a_while",
    ),
    _own_venue.but(
        "sent without the id it is asked by",
        'named = replace(action, client_order_id=client_order_id) if action.verb == "new" else action',
        "named = action",
        "send_path_evidence::test_an_engines_venue_gets_the_id_of_a_new_order_and_keeps_that_of_a_cancel",
    ),
    _own_venue.but(
        "every venue can be asked",
        'return callable(getattr(venue, "find", None))',
        "return True",
        "send_path_evidence::test_an_engines_venue_is_live_unless_it_says_paper",
    ),
    _own_venue.but(
        "a cancel is renamed",
        'if action.verb == "new" else action',
        "if True else action",
        "send_path_evidence::test_an_engines_venue_gets_the_id_of_a_new_order_and_keeps_that_of_a_cancel",
    ),
)
