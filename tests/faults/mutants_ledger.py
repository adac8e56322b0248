"""Wrong changes to the ledger's claims, the secrets, the wire."""

from __future__ import annotations

from tests.faults.mutants_data import File, Mutation

_claims = File("backends/sql/claims.py")
_tries = File("backends/sql/plan_reads.py")
_poison = File("console/services/triage/poison.py")
_secrets = File("console/settings/secrets.py")
_http = File("venues/http.py")

LEDGER: tuple[Mutation, ...] = (
    _claims.but(
        "a rehearsal holds the entry",
        "holds=None if intent.rehearsal else 1)",
        "holds=1)",
        "store_outcomes::test_a_rehearsal_in_flight_holds_nothing_but_its_claim",
    ),
    _claims.but(
        "a rehearsal holds the entry in the end",
        'if state in _HOLDS and not row["rehearsal"] else None',
        "if state in _HOLDS else None",
        "store_outcomes::test_a_rehearsal_changes_nothing_of_the_entry",
    ),
    _claims.but(
        "doubt holds nothing",
        'if any(state != "accepted" for state in real.values()):',
        "if False:",
        "store_modes::test_what_is_under_way_or_in_doubt_blocks_both_modes",
    ),
    _claims.but(
        "live is no end of it",
        'if "live" in real:',
        "if False:",
        "store_modes::test_a_paper_replay_is_reopened_and_sent_live",
    ),
    _claims.but(
        "the same mode twice",
        "if asked.mode in real:",
        "if False:",
        "store_modes::test_a_paper_replay_is_reopened_and_sent_live",
    ),
    _claims.but(
        "the other mode without a restore",
        "if real and not is_open:",
        "if False:",
        "store_modes::test_a_paper_replay_is_reopened_and_sent_live",
    ),
    _claims.but(
        "two rehearsals in doubt",
        "if asked.rehearsal and len(earlier) > len(real):",
        "if False:",
        "store_modes::test_a_rehearsal_in_doubt_blocks_only_rehearsals",
    ),
    _claims.but(
        "a rehearsal in doubt holds what is real",
        "if asked.rehearsal and len(earlier) > len(real):",
        "if len(earlier) > len(real):",
        "store_modes::test_a_rehearsal_in_doubt_blocks_only_rehearsals",
    ),
    _claims.but(
        "a rehearsal counts as real",
        "for mode, state, rehearsal in earlier if not rehearsal}",
        "for mode, state, rehearsal in earlier}",
        "store_modes::test_a_rehearsal_in_doubt_blocks_only_rehearsals",
    ),
    _claims.but(
        "a lease that is over will do",
        ".where(*mine, claim.c.expires_at > self.moment))",
        ".where(*mine))",
        "store_claims::test_an_own_lapsed_lease_sends_nothing",
    ),
    _claims.but(
        "claims that live are taken over",
        "past = claim.c.expires_at <= self.moment",
        "past = claim.c.expires_at >= self.moment",
        "store_claims::test_only_one_holds_a_claim",
    ),
    _claims.but(
        "a claim never ends",
        "past = claim.c.expires_at <= self.moment",
        "past = claim.c.expires_at < 0",
        "store_claims::test_a_lapsed_lease_is_taken_over_and_the_old_owner_fenced_off",
    ),
    _claims.but(
        "a halt refuses nothing",
        "if await tx.is_halted():",
        "if False:",
        "store_claims::test_halt_is_checked_again_with_the_intent",
    ),
    _claims.but(
        "changed, and sent as it was",
        "if tuple(rows[0])[1:] != tuple(version):",
        "if False:",
        "store_claims::test_an_entry_that_changed_after_the_claim_is_not_sent",
    ),
    _claims.but(
        "dismissed, and sent",
        "        if not rows[0][0]:\n",
        "        if False:\n",
        "store_claims::test_what_cannot_be_claimed_says_why",
    ),
    _claims.but(
        "settled as unknown counts twice",
        "bump=bump and not was_doubted)",
        "bump=bump)",
        "store_outcomes::test_settling_what_was_in_doubt",
    ),
    _claims.but(
        "a rehearsal changes the entry",
        '        if not row["rehearsal"]:\n',
        "        if True:\n",
        "store_outcomes::test_a_rehearsal_changes_nothing_of_the_entry",
    ),
    _claims.but(
        "absent is not sent",
        'return "absent" if was_doubted else "not_sent"',
        'return "not_sent"',
        "send_path_wire::test_the_ledger_tells_what_was_absent_from_what_was_never_sent",
    ),
    _claims.but(
        "doubt is a rejection",
        '            return "in_doubt"\n',
        '            return "rejected"\n',
        "store_outcomes::test_each_outcome",
    ),
    _claims.but(
        "what is settled is settled again",
        '                table.c.state.in_(("submitting", "in_doubt")),\n',
        "",
        "store_outcomes::test_two_who_settle_at_once",
    ),
    _claims.but(
        "an ended attempt ends again",
        ", attempt.c.state == sa.text(\"'submitting'\"))",
        ",)",
        "store_outcomes::test_settling_an_attempt_whose_owner_is_gone",
    ),
    _claims.but(
        "the account is not kept",
        "account=None if intent.account is None else storable(intent.account),",
        "account=None,",
        "store_modes::test_account_and_key_are_kept_with_the_attempt",
    ),
    _claims.but(
        "429 counts as a retry",
        'bump = result.outcome in ("rejected", "unknown")',
        'bump = result.outcome in ("rejected", "unknown", "not_sent")',
        "store_outcomes::test_each_outcome",
    ),
    _claims.but(
        "a claim stays after its end",
        "            await self._release(tx, claim.token)\n            if not rows:",
        "            if not rows:",
        "send_path_wire::test_the_account_is_kept_with_the_attempt_and_no_claim_stays",
    ),
    _claims.but(
        "accepted, and not dismissed",
        'settled=result.outcome == "accepted"',
        "settled=False",
        "store_outcomes::test_each_outcome",
    ),
    _claims.but(
        "two rows of one id",
        "if len(rows) > 1:",
        "if False:",
        "store_attach::test_several_rows_of_one_id_are_not_acted_on",
    ),
    _secrets.but(
        "every account falls back to the venue's",
        "(wanted.account, None) if wanted.account and wanted.venue_too else (wanted.account,)",
        "(wanted.account, None)",
        "secrets::test_every_account_has_its_own",
    ),
    _secrets.but(
        "the default account has no fallback",
        "(wanted.account, None) if wanted.account and wanted.venue_too else (wanted.account,)",
        "(wanted.account,)",
        "secrets::test_a_default_account_uses_the_venue_s_set_only_where_it_has_nothing_of_its_own",
    ),
    _secrets.but(
        "a set is put together from two places",
        "            if found:\n",
        "            if len(found) == len(wanted):\n",
        "secrets::test_long_keys_are_kept_in_parts",
    ),
    _secrets.but(
        "half a set will do",
        "            if kept.missing:\n                raise MissingCredentials",
        "            if False:\n                raise MissingCredentials",
        "secrets::test_a_default_account_uses_the_venue_s_set_only_where_it_has_nothing_of_its_own",
    ),
    _secrets.but(
        "a venue may be called provider",
        "if wanted.venue in _NOT_VENUES:",
        "if False:",
        "secrets::test_a_venue_never_reads_what_is_kept_for_others",
    ),
    _secrets.but(
        "a group may read it",
        "& 0o077:",
        "& 0o007:",
        "send_path_wire::test_a_file_of_secrets_is_its_owners_alone",
    ),
    _secrets.but(
        "somebody else's file",
        "status.st_uid not in (os.geteuid(), 0) or ",
        "",
        "send_path_wire::test_a_file_of_secrets_is_its_owners_alone",
    ),
    _secrets.but(
        "a keyring that keeps nothing",
        "if any(kind.__module__.startswith(_REFUSED) for kind in kinds):",
        "if False:",
        "send_path_wire::test_a_keyring_that_keeps_nothing_or_plain_text_is_refused",
    ),
    _secrets.but(
        "a keyring in plain text",
        'if any("plaintext" in kind.__qualname__.lower() for kind in kinds):',
        "if False:",
        "send_path_wire::test_a_keyring_that_keeps_nothing_or_plain_text_is_refused",
    ),
    _secrets.but(
        "an empty field is there",
        "if not found.get(field))",
        "if found.get(field) is None)",
        "secrets::test_a_set_comes_whole_from_the_first_place_that_has_any_of_it",
    ),
    _http.but(
        "three retries",
        "retries=0,",
        "retries=3,",
        "send_path_wire::test_nobody_there_is_tried_once_and_nothing_was_sent",
    ),
    _http.but(
        "the environment's proxy",
        "trust_env=False,",
        "trust_env=True,",
        "send_path_wire",
        equivalent=(
            "httpx reads the environment's proxies in its client, never in the bare transport "
            "that is used here, and the context for TLS is our own"
        ),
    ),
    _http.but(
        "no word from httpx is not sent",
        "return self.further or not self.connecting",
        "return self.further",
        "send_path_wire::test_only_connecting_is_not_sending",
    ),
    _http.but(
        "only connecting, and in doubt",
        "return self.further or not self.connecting",
        "return True",
        "send_path_wire::test_nobody_there_is_tried_once_and_nothing_was_sent",
    ),
    _http.but(
        "whatever failed was not sent",
        "return Unknown(why) if self.begun else NotSent(",
        "return NotSent(why) if self.begun else NotSent(",
        "send_path_wire::test_only_connecting_is_not_sending",
    ),
    _http.but(
        "writing is not sending",
        'case _ if not event.startswith("connection."):',
        'case _ if event.startswith("http11.receive"):',
        "send_path_wire::test_only_connecting_is_not_sending",
    ),
    _http.but(
        "an endless answer",
        "if len(body) > most:",
        "if False:",
        "transport_doubt::test_after_the_first_byte_no_failure_is_not_sent",
    ),
    _http.but(
        "a kept connection for orders",
        'call.headers["connection"] = "close"',
        'call.headers["connection"] = "keep-alive"',
        "transport::test_what_is_on_the_wire",
    ),
    _http.but(
        "a cancelled send raises",
        'return wire.lost("cancelled") if result is None else result',
        "assert result is not None\n        return result",
        "transport_doubt::test_cancelled_after_a_byte_left_is_unknown_and_the_task_can_tell",
    ),
    _http.but(
        "any certificate",
        "    context.minimum_version = ssl.TLSVersion.TLSv1_2\n",
        (
            "    context.minimum_version = ssl.TLSVersion.TLSv1_2\n    context.check_hostname = "
            "False\n    context.verify_mode = ssl.CERT_NONE\n"
        ),
        "send_path_wire::test_certificates_are_verified",
    ),
    _tries.but(
        "a rehearsal's failure counts",
        "real = attempt.c.rehearsal == 0",
        "real = attempt.c.rehearsal >= 0",
        "send_path_moment::test_rehearsals_neither_settle_nor_poison",
    ),
    _tries.but(
        "an accepted replay clears nothing",
        'taken = [row[1] for row in known if row[2] == "accepted"]',
        "taken: list[int] = []",
        "poison::test_an_accepted_replay_clears_it",
    ),
    _tries.but(
        "a clear leaves the last failure",
        "row[1] > since)",
        "row[1] >= since)",
        "poison::test_a_person_clears_what_failed_until_then",
    ),
    _poison.but(
        "poison comes a try too late",
        "if times < after:",
        "if times <= after:",
        "poison::test_the_same_failure_three_times_is_poison",
    ),
    _poison.but(
        "a cleared entry's own error counts",
        "failures.errors if failures.is_cleared else (stored_error(entry), *failures.errors)",
        "(stored_error(entry), *failures.errors)",
        "poison::test_a_person_clears_what_failed_until_then",
    ),
    _poison.but(
        "the entry's own error does not count",
        "(stored_error(entry), *failures.errors)",
        "failures.errors",
        "poison::test_the_entrys_own_error_counts_once",
    ),
)
