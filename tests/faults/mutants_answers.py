"""Wrong changes to how a venue's or a provider's answer is read."""

from __future__ import annotations

from tests.faults.mutants_data import File, Mutation

_answers = File("venues/answers.py")
_alpaca = File("venues/alpaca/answers.py")
_kalshi = File("venues/kalshi/answers.py")
_ccxt = File("venues/ccxt/answers.py")
_hyperliquid = File("venues/hyperliquid/answers.py")
_provider = File("venues/integration/provider.py")
_delivery = File("console/services/resend/delivery.py")
_UNCLEAR = "integration_replay::test_an_end_that_is_not_known_is_in_doubt_and_nothing_goes_again"

ANSWERS: tuple[Mutation, ...] = (
    _answers.but(
        "Retry-After of a send is lost",
        "return RateLimited(result.retry_after())",
        "return RateLimited()",
        "alpaca_answer::test_too_many_requests",
    ),
    _answers.but(
        "429 is the venue's own answer",
        "case Reply(status=429):",
        "case Reply(status=430):",
        "alpaca_answer::test_too_many_requests",
    ),
    _alpaca.but(
        "any 404 is absence",
        "case Reply(status=404) if _error(result)[0] == _NO_SUCH_ORDER:",
        "case Reply(status=404):",
        "alpaca_answer::test_only_its_own_not_found_is_absence",
    ),
    _alpaca.but(
        "a duplicate is a rejection",
        'if "client_order_id" in message.lower() and "unique" in message.lower():',
        "if False:",
        "alpaca_answer::test_a_duplicate_client_order_id_is_evidence_of_arrival",
    ),
    _alpaca.but(
        "another order is ours",
        "    if not named:\n",
        "    if False:\n",
        "alpaca_answer::test_another_order_is_no_answer",
    ),
    _alpaca.but(
        "anybody's refusal counts",
        "if not code or not message or (reply",
        "if (reply",
        "alpaca_answer::test_a_4xx_without_its_own_error_body_is_unknown",
    ),
    _alpaca.but(
        "accepted without an id",
        "if order is None or not order_id:",
        "if order is None:",
        "alpaca_answer::test_a_success_that_is_none",
    ),
    _alpaca.but(
        "accepted under another client id",
        'if text(order, "client_order_id") not in ("", prepared.client_order_id):',
        "if False:",
        "alpaca_answer::test_a_success_that_is_none",
    ),
    _alpaca.but(
        "taken and rejected is accepted",
        'if status == "rejected":',
        "if False:",
        "alpaca_answer::test_an_order_taken_and_rejected_at_once_is_rejected",
    ),
    _alpaca.but(
        "a part that filled is cancelled",
        'if status in ("cancelled", "expired") and',
        "if False and",
        "alpaca_answer::test_accepted_with_the_venues_id",
    ),
    _alpaca.but(
        "Retry-After of a look-up is lost",
        'LookupFailed(f"HTTP {status}", result.retry_after())',
        'LookupFailed(f"HTTP {status}")',
        "send_path_wire::test_a_look_up_that_comes_too_often_tells_when_to_ask_again",
    ),
    _kalshi.but(
        "a duplicate is a rejection",
        'if reply.status == 409 and ("exist" in said or "duplicate" in said):',
        "if False:",
        "kalshi_answer::test_a_duplicate_client_order_id_is_evidence_of_arrival",
    ),
    _kalshi.but(
        "anybody's refusal counts",
        "if not code or (reply.status",
        "if (reply.status",
        "kalshi_answer::test_a_body_it_cannot_read_is_refused_at_the_top_level",
    ),
    _kalshi.but(
        "accepted without an id",
        "if order is None or not order_id:",
        "if order is None:",
        "kalshi_answer::test_a_success_that_is_none",
    ),
    _kalshi.but(
        "an amend of another order",
        'if prepared.verb != "new" and order_id != prepared.action.venue_order_id:',
        "if False:",
        "kalshi_answer::test_an_answer_about_another_order",
    ),
    _ccxt.but(
        "a duplicate by its words is a rejection",
        "(_is_order_error(error) and _KNOWN_THERE.search(text))",
        "False",
        "ccxt_answers::test_a_duplicate_proves_that_it_arrived",
    ),
    _ccxt.but(
        "a server's error is a refusal",
        "if not sending.own or result.status >= 500 or result.status in (408, 409):",
        "if not sending.own:",
        "ccxt_answers::test_each_answer_is_read_for_what_it_proves",
    ),
    _ccxt.but(
        "accepted under another client id",
        "and not same_id(echoed, prepared.client_order_id):",
        "and False:",
        "ccxt_answers::test_each_answer_is_read_for_what_it_proves",
    ),
    _ccxt.but(
        "another order was cancelled",
        "if found is None or (aim is not None and found != aim):",
        "if found is None:",
        "ccxt_answers::test_a_cancel_is_believed_only_about_its_order",
    ),
    _hyperliquid.but(
        "a duplicate is a rejection",
        "    if _says_arrived(said):\n",
        "    if False:\n",
        "hyperliquid_answers::test_a_duplicate_proves_that_it_arrived",
    ),
    _hyperliquid.but(
        "whatever it says is a refusal",
        'return Unknown(f"an answer not known to be a refusal: {said[:200]}")',
        'return Rejected("unknown", said)',
        "hyperliquid_answers::test_each_answer_is_read_for_what_it_proves",
    ),
    _hyperliquid.but(
        "accepted under another client id",
        'if body.get("cloid", prepared.client_order_id) != prepared.client_order_id:',
        "if False:",
        "hyperliquid_answers::test_each_answer_is_read_for_what_it_proves",
    ),
    _hyperliquid.but(
        "two answers to one order",
        "if isinstance(statuses, list) and len(statuses) == 1 else None",
        "if isinstance(statuses, list) and statuses else None",
        "send_path_wire::test_two_answers_to_one_order_prove_nothing",
    ),
    _provider.but("a provider's 5xx is a refusal", "if status >= 500:", "if False:", _UNCLEAR),
    _delivery.but(
        "a refusal after an unclear try counts",
        "case Rejected() if not done.may_have_arrived:",
        "case Rejected():",
        _UNCLEAR,
    ),
    _delivery.but(
        "nothing was sent after an unclear try",
        "case RateLimited() if not done.may_have_arrived:",
        "case RateLimited():",
        _UNCLEAR,
    ),
    _delivery.but(
        "an unclear end counts as failed",
        'return Result("unknown", error=',
        'return Result("rejected", error=',
        _UNCLEAR,
    ),
)
