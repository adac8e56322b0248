"""Wrong changes to what an order means: its terms, its worth, its place in the market and in the plan."""

from __future__ import annotations

from tests.faults.mutants_data import File

_worth = File("console/services/market/worth.py")
_exposure = File("console/services/market/exposure.py")
_quote = File("venues/quote.py")
_terms = File("venues/terms.py")
_names = File("sink/dlq_sink/terms.py")
_action = File("venues/action.py")
_orders = File("venues/orders.py")
_plan = File("console/services/replay/plan.py")
_guards = File("console/services/replay/guards.py")
_preflight = File("console/services/replay/preflight.py")
_submit = File("console/services/replay/submit.py")
_command = File("console/services/replay/command.py")

_CELLS = "worth::test_value_drift_and_position_in_every_cell"
_GUARD = "guards::test_each_guard_stops_its_case_and_no_other"
_EXITS = "worth::test_exits_go_first_and_each_order_meets_the_position_that_the_one_before_it_left"

WORTH = (
    _worth.but(
        "the near side",
        "(quote.ask if buys(action) else quote.bid)",
        "(quote.bid if buys(action) else quote.ask)",
        _CELLS,
    ),
    _worth.but(
        "contracts without size", "action.quantity * price * view.contract_size", "action.quantity * price", _CELLS
    ),
    _worth.but(
        "inverse contracts by price",
        "    if view.inverse:\n",
        "    if False:\n",
        "worth::test_what_else_an_order_can_be_counted_by",
    ),
    _worth.but(
        "dollars as shares",
        "        return action.terms.notional\n",
        "        return Decimal(0)\n",
        "worth::test_what_else_an_order_can_be_counted_by",
    ),
    _worth.but("drift at the bound", "worth.through <= limits.max_drift", "worth.through < limits.max_drift", _CELLS),
    _worth.but("exits drift too", "worth.quote is None or worth.reduces or", "worth.quote is None or", _CELLS),
    _worth.but(
        "drift of a probability as a share",
        "if not seen.zero_to_one:",
        "if True:",
        "worth::test_a_contract_between_zero_and_one_is_measured_in_its_price",
    ),
    _worth.but("a turned position is an exit", "and action.quantity <= abs(before)", "", _CELLS),
    _worth.but("adding is an exit", "(before > 0) != buys(action) and", "(before > 0) == buys(action) and", _CELLS),
    _worth.but(
        "reduce-only is no exit",
        "action.terms.reduce_only or action.terms.position_intent in _CLOSES",
        "False",
        "worth::test_reduce_only_and_closing_intents_only_reduce",
    ),
    _worth.but("one limit is enough", "all(amount_in(limit", "any(amount_in(limit", _GUARD),
    _quote.but("old quotes count", "if age > quote_seconds:", "if age > quote_seconds * 9:", _CELLS),
    _quote.but("crossed quotes count", "if self.bid > self.ask:", "if False:", _CELLS),
    _quote.but("a side of zero counts", "or self.bid <= 0 or self.ask <= 0", "", _CELLS),
    _exposure.but(
        "currencies never add up",
        "if shares > 1 else None",
        "if False else None",
        "worth::test_four_eyes_are_needed_over_one_currencys_limit_or_over_all_together",
    ),
    _exposure.but(
        "a currency without limit is free",
        "if limit is None:",
        "if False:",
        "worth::test_four_eyes_are_needed_over_one_currencys_limit_or_over_all_together",
    ),
    _exposure.but(
        "at the limit",
        "if amount > limit:",
        "if amount >= limit:",
        "worth::test_four_eyes_are_needed_over_one_currencys_limit_or_over_all_together",
    ),
    _guards.but("live without a value", "if is_live and not is_valued(seen, limits):", "if False:", _GUARD),
    _guards.but("paper needs a value", "if is_live and not", "if not", _GUARD),
    _guards.but(
        "unknown keys pass", "names = sends.unmapped(command.action, facts.limits.labels)", "names = ()", _GUARD
    ),
    _guards.but(
        "labels of the config do not count",
        "sends.unmapped(command.action, facts.limits.labels)",
        "sends.unmapped(command.action)",
        _GUARD,
    ),
    _guards.but("unsent terms are unparsable", "    if refused.unsent:\n", "    if False:\n", _GUARD),
    _guards.but("drift holds nothing", "    text = drifted(seen, limits)\n", "    text = None\n", _GUARD),
    _plan.but(
        "exits wait their turn",
        "exits = [entry_id for entry_id in ids if making.reduces(entry_id)]",
        "exits: list[str] = []",
        _EXITS,
    ),
    _plan.but("no order moves the position", "            self._move(command, seen)\n", "", _EXITS),
    _plan.but(
        "the other contract moves it the other way",
        "return -1 if view is not None and view.flipped else 1",
        "return 1",
        "worth::test_a_contract_seen_from_its_other_side_moves_the_same_position",
    ),
    _plan.but(
        "what nobody selected does not count",
        "sorted((*commands, *facts.others), key=_place)",
        "sorted(commands, key=_place)",
        "replay_batch::test_a_command_waits_for_a_stronger_one_that_nobody_selected",
    ),
    _plan.but(
        "terms are not in the hash",
        '"terms": action.terms.document(), ',
        "",
        "plan::test_the_hash_covers_ids_versions_commands_and_mode_but_no_time",
    ),
    _preflight.but(
        "another account's command counts",
        "(one.own_venue, one.key) in orders",
        "one.action.order_key in keys",
        "replay_batch::test_another_accounts_or_venues_command_of_the_same_key_holds_nothing_back",
    ),
    _terms.but(
        "every term is sent",
        "names = [name for name in action.terms.names if name not in sent]",
        "names: list[str] = []",
        "terms::test_what_a_client_does_not_declare_is_unsent",
    ),
    _terms.but("a market order's price is forgotten", '        names.append("price")\n', "        pass\n", "action"),
    _terms.but(
        "a cancel's terms count",
        'if action.verb == "cancel" or self.everything:\n            return ()\n        sent',
        "if self.everything:\n            return ()\n        sent",
        "terms",
    ),
    _terms.but("text is a flag", "if value is not True:", "if not value:", "terms::test_what_cannot_be_read_blocks"),
    _terms.but(
        "a stop at zero",
        "if number is None or number <= 0:",
        "if number is None:",
        "terms::test_what_cannot_be_read_blocks",
    ),
    _terms.but(
        "a time of any zone", "if at.utcoffset() is None:", "if False:", "terms::test_what_cannot_be_read_blocks"
    ),
    _names.but("false is set", "value is False or ", "", "terms::test_what_says_nothing_is_not_set"),
    _names.but("dashes matter", '.replace("-", "")', "", "terms::test_labels_pass_and_other_keys_are_kept_as_unknown"),
    _action.but(
        "two names may differ",
        "        if any(value != values[0] for value in values):\n",
        "        if False:\n",
        "terms::test_what_cannot_be_read_blocks",
    ),
    _action.but(
        "a stop without a stop price", 'if order_type in ("stop", "stop_limit") and', "if False and", "terms", "action"
    ),
    _action.but(
        "params are not read", "name = IN_PARAMS_OF.get(fold(key))", "name = None", "terms::test_every_spelling_is_read"
    ),
    _action.but(
        "an order id of dots",
        'name == "venue_order_id" and not text.strip(".")',
        "False",
        "terms::test_an_order_id_of_dots_is_none",
    ),
    _orders.but(
        "a term that only the venue has",
        "one.name not in _NEVER_FILLED_IN",
        "True",
        "terms::test_a_venues_order_is_compared_in_every_term",
    ),
    _orders.but(
        "terms are not compared",
        "return (*found, *_other_terms(action.terms, order.terms))",
        "return (*found,)",
        "terms::test_a_venues_order_is_compared_in_every_term",
    ),
    _submit.but(
        "only the first id is asked for",
        "for aim in context.command.aims[1:] if prepared.found_by else ():",
        "for aim in ():",
        "replay_batch::test_a_cancel_finds_its_order_by_any_id_that_it_may_have",
    ),
    _submit.but(
        "what was not found is sent",
        '        if verdict.order is None:\n            told = f"its order',
        '        if False:\n            told = f"its order',
        "replay_batch::test_a_cancel_whose_order_cannot_be_found_yet_is_not_sent",
    ),
    _command.but(
        "a replace aims at its own new id",
        'own = [action.client_order_id] if action.verb == "cancel" or',
        "own = [action.client_order_id] if True or",
        "cli_terms::test_a_replace_without_an_order_id_finds_its_order_at_the_venue",
        equivalent="an order under its own new id is the one it would become, and is looked at as that",
    ),
)
