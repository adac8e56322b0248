"""One small wrong change to the code, as data, and the tests that are run to see it."""

from __future__ import annotations

from dataclasses import dataclass

SUITES = {
    "action": "tests/unit/test_action.py",
    "alpaca_answer": "tests/contract/venues/test_alpaca_answer.py",
    "ccxt_answers": "tests/contract/venues/test_ccxt_answers.py",
    "cli_terms": "tests/services/test_cli_terms.py",
    "execution_control": "tests/services/test_execution_control.py",
    "execution_order": "tests/services/test_execution_order.py",
    "flow_control": "tests/services/test_flow_control.py",
    "guards": "tests/services/test_guards.py",
    "hyperliquid_answers": "tests/contract/venues/test_hyperliquid_answers.py",
    "integration_replay": "tests/contract/stores/test_integration_replay.py",
    "kalshi_answer": "tests/contract/venues/test_kalshi_answer.py",
    "lookup_verdict": "tests/services/test_lookup_verdict.py",
    "outbox_lineage": "tests/contract/stores/test_outbox_lineage.py",
    "outbox_replay": "tests/contract/stores/test_outbox_replay.py",
    "outbox_returns": "tests/services/test_outbox_returns.py",
    "outbox_twins": "tests/contract/stores/test_outbox_twins.py",
    "plan": "tests/services/test_plan.py",
    "poison": "tests/services/test_poison.py",
    "reconcile": "tests/services/test_reconcile.py",
    "replay_batch": "tests/services/test_replay_batch.py",
    "replay_order_lookup": "tests/services/test_replay_order_lookup.py",
    "secrets": "tests/unit/test_secrets.py",
    "send_path_evidence": "tests/services/test_send_path_evidence.py",
    "send_path_held": "tests/services/test_send_path_held.py",
    "send_path_moment": "tests/services/test_send_path_moment.py",
    "send_path_wire": "tests/services/test_send_path_wire.py",
    "settle_ask": "tests/services/test_settle_ask.py",
    "store_attach": "tests/contract/stores/test_store_attach.py",
    "store_claims": "tests/contract/stores/test_store_claims.py",
    "store_modes": "tests/contract/stores/test_store_modes.py",
    "store_outcomes": "tests/contract/stores/test_store_outcomes.py",
    "submit": "tests/services/test_submit.py",
    "terms": "tests/unit/test_terms.py",
    "transport": "tests/contract/venues/test_transport.py",
    "transport_doubt": "tests/contract/venues/test_transport_doubt.py",
    "worth": "tests/services/test_worth.py",
}


@dataclass(frozen=True, slots=True)
class Mutation:
    """`old` is in the file exactly once. `equivalent`: why no test can tell the change from the right code."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""


class File:
    """The file that is changed; its name begins the names of its mutations."""

    def __init__(self, path: str) -> None:
        self.path = path
        *_, folder, name = path.removesuffix(".py").split("/")
        self._word = f"{folder} answers" if name == "answers" else name

    def but(self, name: str, old: str, new: str, *tests: str, equivalent: str = "") -> Mutation:
        """`tests` are suites of the table above, or one test each: `suite::test_name`."""
        places = tuple(_place(*test.partition("::")) for test in tests)
        return Mutation(f"{self._word}: {name}", self.path, old, new, places, equivalent)


def _place(suite: str, _: str, name: str) -> str:
    return f"{SUITES[suite]}::{name}" if name else SUITES[suite]
