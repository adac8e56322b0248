"""Wrong changes to what gathers, collapses and hashes a plan."""

from __future__ import annotations

from tests.faults.mutants_data import File, Mutation

_plan = File("console/services/replay/plan.py")
_preflight = File("console/services/replay/preflight.py")
_command = File("console/services/replay/command.py")
_venue_pool = File("console/services/replay/venue_pool.py")

PLANNING: tuple[Mutation, ...] = (
    _plan.but(
        "the hash without overrides",
        "command.client_order_id, list(self.overridden), terms]",
        "command.client_order_id, terms]",
        "plan::test_the_hash_covers_ids_versions_commands_and_mode_but_no_time",
    ),
    _plan.but(
        "the hash without the host",
        "command.venue, self.host, self.account]",
        "command.venue, self.account]",
        "plan::test_the_hash_covers_ids_versions_commands_and_mode_but_no_time",
    ),
    _plan.but(
        "the hash without the account",
        "command.venue, self.host, self.account]",
        "command.venue, self.host]",
        "plan::test_the_hash_covers_ids_versions_commands_and_mode_but_no_time",
    ),
    _plan.but(
        "the hash without the version",
        "[command.entry_id, [str(part) for part in command.version], ",
        "[command.entry_id, ",
        "plan::test_the_hash_covers_ids_versions_commands_and_mode_but_no_time",
    ),
    _plan.but(
        "the hash without the client id",
        "[*parts, command.client_order_id, ",
        "[*parts, ",
        "plan::test_the_hash_covers_ids_versions_commands_and_mode_but_no_time",
    ),
    _plan.but(
        "the hash without the terms",
        "list(self.overridden), terms]",
        "list(self.overridden)]",
        "plan::test_the_hash_covers_ids_versions_commands_and_mode_but_no_time",
    ),
    _plan.but(
        "the hash without the mode",
        "json.dumps([mode, *(",
        "json.dumps([*(",
        "plan::test_the_hash_covers_ids_versions_commands_and_mode_but_no_time",
    ),
    _plan.but(
        "approved in another mode",
        'approved["mode"] == self.mode and same and not grown',
        "same and not grown",
        "send_path_moment::test_an_approval_is_for_one_mode_and_for_these_orders_or_fewer",
    ),
    _plan.but(
        "a clock set back makes it young",
        "not -_BACK <= (at - self.made_at).total_seconds() <= seconds",
        "(at - self.made_at).total_seconds() > seconds",
        "send_path_moment::test_a_plan_grows_old_by_a_clock_that_was_set_back_too",
    ),
    _plan.but(
        "the earlier of two equal commands",
        "command.rank >= commands[held].rank:",
        "command.rank > commands[held].rank:",
        "plan::test_collapse_equals_the_naive_reference",
    ),
    _plan.but(
        "one more than the batch holds",
        "len(self.steps) >= facts.limits.max_batch",
        "len(self.steps) > facts.limits.max_batch",
        "worth::test_exits_take_the_room_of_a_full_batch",
    ),
    _plan.but(
        "any gross with one pair of eyes",
        "if not facts.rehearsal and any(gross.values()):",
        "if False:",
        "plan::test_four_eyes_over_the_limit_and_for_overrides_in_live",
    ),
    _plan.but(
        "an override in live with one pair of eyes",
        'if used and facts.mode == "live":',
        "if False:",
        "plan::test_four_eyes_over_the_limit_and_for_overrides_in_live",
    ),
    _plan.but(
        "its order is never in doubt",
        "order_in_doubt=any(one.entry_id != command.entry_id for one in facts.busy.get(command.key, ())),",
        "order_in_doubt=False,",
        "replay_batch::test_a_cancel_goes_while_its_order_is_in_doubt",
    ),
    _plan.but(
        "two of a kind in one batch",
        'if likeness(command) in seen and command.action.verb == "new":',
        "if False:",
        "plan::test_the_second_of_two_like_orders_is_a_duplicate",
    ),
    _plan.but(
        "superseded by what does not go",
        "if one.by in sent]",
        "]",
        "plan::test_no_entry_is_lost_and_no_order_has_two_commands",
    ),
    _plan.but(
        "an overridden cancel needs two",
        'if step.command.action.verb != "cancel" for code',
        "for code",
        "send_path_moment::test_an_override_of_a_cancel_needs_no_second_person",
    ),
    _preflight.but(
        "the plan's clock is this machine's",
        "at=max(here, there),",
        "at=here,",
        "send_path_moment::test_a_plan_is_judged_by_the_later_clock",
    ),
    _preflight.but(
        "a rehearsal is for real",
        'rehearsal = self._environment == "live" and request.mode == "paper"',
        "rehearsal = False",
        "submit::test_a_rehearsal_changes_neither_state_nor_retries",
    ),
    _preflight.but(
        "a rehearsal in doubt holds the order",
        "if attempt.mode == mode and not attempt.rehearsal else",
        "if attempt.mode == mode else",
        "send_path_moment::test_doubt_in_one_mode_or_in_a_rehearsal_holds_no_other",
    ),
    _preflight.but(
        "the other mode's doubt holds the order",
        "if attempt.mode == mode and not attempt.rehearsal else",
        "if not attempt.rehearsal else",
        "send_path_moment::test_doubt_in_one_mode_or_in_a_rehearsal_holds_no_other",
    ),
    _preflight.but(
        "a rehearsal settles",
        'if one.outcome == "accepted" and not one.rehearsal)',
        'if one.outcome == "accepted")',
        "send_path_moment::test_rehearsals_neither_settle_nor_poison",
    ),
    _preflight.but(
        "the oldest capture counts",
        "max(newest.get(command.key, command.captured_at), command.captured_at)",
        "min(newest.get(command.key, command.captured_at), command.captured_at)",
        "send_path_moment::test_the_newest_entry_of_an_order_says_when_it_may_have_been_sent",
    ),
    _preflight.but(
        "ids are burnt in both modes",
        "attempts.get(command.places or entry_id, ()) if one.mode == mode]",
        "attempts.get(command.places or entry_id, ())]",
        "send_path_moment::test_an_id_is_burnt_in_its_mode_and_at_its_venue_only",
    ),
    _preflight.but(
        "ids are burnt at every venue",
        "here = [one for one in attempts if one.venue == command.venue]",
        "here = list(attempts)",
        "send_path_moment::test_an_id_is_burnt_in_its_mode_and_at_its_venue_only",
    ),
    _preflight.but(
        "claims are not looked at",
        "claims=await self._store.live_claims(ids),",
        "claims={},",
        "send_path_moment::test_what_another_console_has_claimed_is_not_planned",
    ),
    _preflight.but(
        "a wrong account may be overridden",
        "BadCredentials | WrongMode | WrongAccount)",
        "BadCredentials | WrongMode)",
        "send_path_moment::test_another_account_than_the_configs_cannot_be_overridden",
    ),
    _preflight.but(
        "whose account answers is not checked again",
        "            self._pool.check_number(at, request.mode, client)  # a probe",
        "            pass  # a probe",
        "send_path_moment::test_the_account_is_checked_again_after_the_venue_was_asked",
    ),
    _preflight.but(
        "what was placed is placed again",
        "if command.key not in replayed.heads and not await",
        "if not await",
        "execution_order::test_a_replace_of_what_was_placed_once_is_never_a_new_order",
    ),
    _preflight.but(
        "a dismissed order is placed",
        "waiting = [one for one in firsts if one.entry_id in pending]",
        "waiting = firsts",
        "execution_order::test_a_dismissed_order_is_not_placed_by_its_replace",
    ),
    _preflight.but(
        "the first of several is placed",
        "max(waiting, key=lambda one: one.place)",
        "min(waiting, key=lambda one: one.place)",
        "execution_order::test_a_replace_places_the_latest_of_several_orders",
    ),
    _preflight.but(
        "what was placed from here is not looked for",
        "aimed(one, firsts, replayed.ids.get(one.key, ()))",
        "aimed(one, firsts)",
        "execution_control::test_a_command_finds_the_order_that_was_placed_from_here",
    ),
    _command.but(
        "what may have arrived under another id is forgotten",
        "        and one.may_have_arrived\n",
        "        and False\n",
        "execution_order::test_an_order_does_not_stand_for_one_that_may_have_arrived",
    ),
    _command.but(
        "the id that is asked for is a rival",
        "and (not own or one.action.client_order_id != own)",
        "and True",
        "execution_order::test_one_that_may_have_arrived_under_the_same_id_is_asked_for",
    ),
    _command.but(
        "every rejection burns the id",
        'attempt.outcome == "rejected" and bool(attempt.venue_order_id)',
        'attempt.outcome == "rejected"',
        "send_path_moment::test_a_refusal_without_an_order_burns_no_id",
    ),
    _command.but(
        "ids are alike in all stores",
        'text = f"{store_id}\\n{entry_id}"',
        'text = f"{entry_id}"',
        "send_path_moment::test_a_fresh_id_is_not_the_entrys_own",
    ),
    _command.but(
        "any id fits any venue",
        "takes_own = bool(own) and profile.takes_id(own)",
        "takes_own = bool(own)",
        "send_path_moment::test_a_fresh_id_is_not_the_entrys_own",
    ),
    _command.but(
        "a fresh id is the entry's own",
        "own_id=takes_own and not burnt,",
        "own_id=takes_own,",
        "send_path_moment::test_an_id_is_burnt_in_its_mode_and_at_its_venue_only",
    ),
    _command.but(
        "what the venue refused may have arrived",
        "may_have_arrived=command.may_have_arrived and not refused,",
        "may_have_arrived=command.may_have_arrived,",
        "submit::test_an_order_that_the_venue_rejected_burns_its_id",
    ),
    _command.but(
        "two accounts are one",
        'return self.venue, self.action.account_id or "", self.action',
        'return self.venue, "", self.action',
        "send_path_moment::test_doubt_in_one_mode_or_in_a_rehearsal_holds_no_other",
    ),
    _command.but(
        "the engine's id is always known",
        "return self.own_id if self.elsewhere is None else bool(self.action.client_order_id)",
        "return True",
        "send_path_moment::test_what_was_sent_without_an_id_cannot_be_asked_for",
    ),
    _venue_pool.but(
        "the window is shorter than a request lives",
        "return max(visibility, profile.arrival_bound or 0.0)",
        "return visibility",
        "send_path_moment::test_absence_counts_no_sooner_than_a_request_may_still_arrive",
    ),
    _venue_pool.but(
        "every venue has paper",
        'if mode == "paper" and not has_paper(self.kind(name)):',
        "if False:",
        "send_path_moment::test_a_venue_without_paper_gets_no_paper_order",
    ),
    _venue_pool.but(
        "the paper number in live",
        'return named.paper_number if mode == "paper" else named.live_number',
        "return named.paper_number",
        "send_path_moment::test_each_mode_has_its_own_number_and_address",
    ),
    _venue_pool.but(
        "paper's address in live",
        'settings.paper_endpoint if mode == "paper" else settings.live_endpoint',
        "settings.paper_endpoint",
        "send_path_moment::test_each_mode_has_its_own_number_and_address",
    ),
    _venue_pool.but(
        "the venue's own keys for every account",
        "own = at.account is None or at.account == settings.default_account",
        "own = True",
        "send_path_moment::test_only_the_default_account_may_use_the_venues_own_keys",
    ),
    _venue_pool.but(
        "who does not tell its account passes",
        'number.lower() == (client.account or "").lower():',
        "number.lower() == (client.account or number).lower():",
        "send_path_moment::test_an_account_that_the_venue_does_not_tell_is_not_the_configs",
    ),
    _venue_pool.but(
        "no account is the default's",
        'settings.accounts.get(at.account or settings.default_account or "")',
        'settings.accounts.get(at.account or "")',
        "send_path_moment::test_each_mode_has_its_own_number_and_address",
    ),
)
