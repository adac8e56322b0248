"""Wrong changes to what holds an order up."""

from __future__ import annotations

from tests.faults.mutants_data import File, Mutation

_still_fit = File("console/services/replay/still_fit.py")
_moment = File("console/services/replay/moment.py")
_guards = File("console/services/replay/guards.py")
_worth = File("console/services/market/worth.py")
_exposure = File("console/services/market/exposure.py")
_terms = File("venues/terms.py")
_flow_control = File("console/services/replay/flow_control.py")

JUDGING: tuple[Mutation, ...] = (
    _still_fit.but(
        "limits that cannot be read are none",
        'return Guard("notional", f"the limits in force cannot be read: {problem}")',
        "return None",
        "send_path_moment::test_an_order_is_judged_again_as_it_goes",
    ),
    _still_fit.but(
        "another account may answer",
        "if account != step.account or (",
        "if (",
        "send_path_moment::test_an_order_is_judged_again_as_it_goes",
    ),
    _still_fit.but(
        "another key may answer",
        "(account is None and key_digest != step.key_digest)",
        "False",
        "send_path_moment::test_an_order_is_judged_again_as_it_goes",
    ),
    _still_fit.but(
        "a key decides where the account is told",
        "(account is None and key_digest != step.key_digest)",
        "(key_digest != step.key_digest)",
        "send_path_moment::test_an_order_is_judged_again_as_it_goes",
    ),
    _still_fit.but(
        "age is not judged again",
        'Guard("stale", late) if late else None',
        "None",
        "send_path_moment::test_an_order_is_judged_again_as_it_goes",
    ),
    _still_fit.but(
        "size is not judged again",
        "        too_big(step.command, step.worth, now, is_live=step.is_live),\n",
        "",
        "send_path_moment::test_an_order_is_judged_again_as_it_goes",
    ),
    _still_fit.but(
        "an override does not count at the send",
        " and guard.code not in step.overridden",
        "",
        "send_path_moment::test_an_order_is_judged_again_as_it_goes",
    ),
    _still_fit.but(
        "an overridden age still bounds the wait",
        'if "stale" in step.overridden:',
        "if False:",
        "send_path_moment::test_no_wait_carries_it_past_the_first_of_its_ends",
    ),
    _moment.but(
        "a cancel grows old",
        '    if command.action.verb == "cancel":\n',
        "    if False:\n",
        "send_path_moment::test_age_and_time_in_force_end_an_order_and_never_a_cancel",
    ),
    _moment.but(
        "what has no age is young",
        'return "its age is not known: captured_at is not a time with a zone"',
        "return None",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _moment.but(
        "the future is young",
        "if old < -_FUTURE:",
        "if False:",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _moment.but(
        "old is twice as old",
        "if old > stale_after:",
        "if old > stale_after * 2:",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _moment.but(
        "a stated end does not count",
        "if stated is not None and at > stated:",
        "if False:",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _moment.but(
        "a session's close does not count",
        "if close is not None and command.captured_at <= close < at:",
        "if False:",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _moment.but(
        "a session in between does not count",
        "close - command.captured_at > _DAY and not",
        "False and not",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _moment.but(
        "out of hours is another day",
        " > _DAY and not just_now:",
        " > _DAY:",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _moment.but(
        "a day lasts for ever",
        "if at - command.captured_at > _DAY else None",
        "if False else None",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _moment.but(
        "the last of its ends counts",
        "return min(ends)",
        "return max(ends)",
        "send_path_moment::test_no_wait_carries_it_past_the_first_of_its_ends",
    ),
    _moment.but(
        "the venue's own time in force does not count",
        "(command.action.time_in_force or (profile.default_tif if profile else None))",
        "command.action.time_in_force",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _terms.but(
        "milliseconds are seconds",
        "float(number / 1000), UTC)",
        "float(number / 1), UTC)",
        "send_path_moment::test_a_stated_end_counts_in_every_form",
    ),
    _guards.but(
        "a halt holds nothing",
        "if facts.halt is not None:",
        "if False:",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _guards.but(
        "a paper store sends live",
        'if facts.paper_store and facts.mode == "live":',
        "if False:",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _guards.but(
        "a claim holds nothing",
        "if entry_id in facts.claims:",
        "if False:",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _guards.but(
        "in flight is pending",
        'if state in ("in_doubt", "in_flight"):',
        'if state == "in_doubt":',
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _guards.but(
        "accepted once, sent again",
        "if facts.mode in accepted and not facts.rehearsal:",
        "if False:",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _guards.but(
        "a second rehearsal is settled",
        "if facts.mode in accepted and not facts.rehearsal:",
        "if facts.mode in accepted:",
        "send_path_moment::test_a_rehearsal_may_be_repeated",
    ),
    _guards.but(
        "another command in doubt holds nothing",
        "if holding is not None:",
        "if False:",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _guards.but(
        "an equal command has superseded it",
        "if rank > command.rank:",
        "if head and rank >= command.rank:",
        "send_path_moment::test_a_stronger_or_open_command_of_the_same_order_holds_it_and_an_equal_one_does_not",
    ),
    _guards.but(
        "a cancel passes everything",
        ' and other.in_doubt and other.verb != "cancel"',
        "",
        "send_path_moment::test_a_stronger_or_open_command_of_the_same_order_holds_it_and_an_equal_one_does_not",
    ),
    _guards.but(
        "the same again is no duplicate",
        "if likeness(command) in facts.replayed.likes and",
        "if False and",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _guards.but(
        "one retry more",
        "if command.retry_count < limit:",
        "if command.retry_count <= limit:",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _guards.but(
        "one failure more",
        "if times < facts.limits.poison_after:",
        "if times <= facts.limits.poison_after:",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _worth.but(
        "cents are dollars",
        'return amount / _CENTS if action.price_unit == "cents" else amount',
        "return amount",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _guards.but(
        "twice the money",
        "limit is not None and amount > limit:",
        "limit is not None and amount > limit * 2:",
        "send_path_moment::test_an_order_is_judged_again_as_it_goes",
    ),
    _guards.but(
        "any quantity",
        "command.action.quantity > most:",
        "False:",
        "send_path_moment::test_an_order_is_judged_again_as_it_goes",
    ),
    _guards.but(
        "a live account for paper",
        'not_paper = facts.mode == "paper" and seen.really_paper is False',
        "not_paper = False",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _guards.but(
        "an id that it was not sent with will do",
        "elif not command.engine_id_is_known:",
        "elif False:",
        "send_path_moment::test_what_was_sent_without_an_id_cannot_be_asked_for",
    ),
    _guards.but(
        "a venue that cannot be asked will do",
        "elif not venue.has_lookup:",
        "elif False:",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _guards.but(
        "a cancel waits for the market",
        'if seen.closed and (command.action.verb == "cancel" or not has_hours):',
        "if seen.closed and not has_hours:",
        "guards::test_each_guard_stops_its_case_and_no_other",
    ),
    _guards.but(
        "a cancel is a risk",
        '    if command.action.verb != "cancel":\n        found += [',
        "    if True:\n        found += [",
        "send_path_moment::test_size_and_likeness_hold_an_order_and_no_cancel",
    ),
    _flow_control.but(
        "six failures open it",
        "or failures >= FAILURES:",
        "or failures > FAILURES:",
        "flow_control::test_five_failures_in_a_row_open_it",
    ),
    _flow_control.but(
        "one success closes it",
        "if done >= SUCCESSES else",
        "if done >= 1 else",
        "flow_control::test_half_open_after_its_time_lets_one_through_and_closes_after_two",
    ),
    _flow_control.but(
        "half-open lets all through",
        '            case "half-open":\n                return 1',
        '            case "half-open":\n                return FAILURES',
        "flow_control::test_half_open_after_its_time_lets_one_through_and_closes_after_two",
    ),
    _flow_control.but(
        "a slow-down spoils no turn",
        "        self.holds += 1\n",
        "",
        "send_path_held::test_a_venue_that_asks_to_slow_down_is_held_for_as_long_as_it_says",
    ),
    _flow_control.but(
        "a slow-down holds nothing",
        "        self._next = max(self._next, self._held_until)\n",
        "",
        "flow_control::test_a_slow_down_moves_every_later_turn",
    ),
    _flow_control.but(
        "turns begin at once",
        "self._next = self._now() + wait + self.gap",
        "self._next = self._now() + self.gap",
        "flow_control::test_turns_are_never_closer_than_the_rate_allows",
    ),
    _flow_control.but(
        "nothing is ever stopped",
        "    return not stopped.is_set()\n",
        "    return True\n",
        "flow_control::test_a_wait_ends_with_its_time_or_when_it_is_stopped",
    ),
    _flow_control.but(
        "open for ever",
        'if self.state == "open" and now - self.opened_at >= OPEN_SECONDS:',
        "if False:",
        "flow_control::test_half_open_after_its_time_lets_one_through_and_closes_after_two",
    ),
)
