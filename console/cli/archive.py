"""The archive verb: write a bundle, or verify one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from console import clock
from console.cli.context import DONE, REJECTED, USAGE, Context, refuse_blind
from console.cli.parser import UsageError
from console.cli.printing.progress import ProgressBar
from console.cli.stats import moment
from console.services.triage.archive import ArchiveError, archive, verify
from console.text.untrusted import safe


async def archive_verb(context: Context) -> int:
    args = context.args
    if args.verify:
        return _verify(Path(args.verify), as_json=args.json)
    if not args.before or not args.out:
        raise UsageError("say --before DATE and --out FILE; or --verify FILE")
    before = moment(context, args.before)
    async with context.store(read_only=True) as store:
        refuse_blind(store)
        try:
            with ProgressBar("archiving") as bar:
                made = await archive(store, before, Path(args.out), actor=context.actor, now=clock.now(), progress=bar)
        except ArchiveError as problem:
            raise UsageError(str(problem)) from None
    told = {"file": str(made.path), "entries": made.entries, "attempts": made.attempts, "events": made.events}
    if args.json:
        print(json.dumps({**told, "head": made.head, "digest": made.digest}))
        return DONE
    where = safe(str(made.path))
    print(f"archived {made.entries} entries, {made.attempts} attempts, {made.events} audit events to {where}")
    print(f"head {made.head}\ndigest {made.digest}")
    print("dlq: nothing was deleted; keep the digest elsewhere, it proves the whole bundle", file=sys.stderr)
    return DONE


def _verify(path: Path, *, as_json: bool) -> int:
    with ProgressBar("verifying lines") as bar:
        verdict = verify(path, bar)
    if as_json:
        told = {"sound": verdict.sound, "problems": list(verdict.problems), "entries": verdict.entries}
        print(json.dumps({**told, "events": verdict.events, "head": verdict.head, "digest": verdict.digest}))
    elif verdict.sound:
        print(f"sound: {verdict.entries} entries, {verdict.events} audit events\nhead {verdict.head}")
        print(f"digest {verdict.digest}")
    for problem in verdict.problems:
        print(f"dlq: {safe(str(path))}: {safe(problem)}", file=sys.stderr)
    return DONE if verdict.sound else REJECTED if verdict.is_bundle else USAGE
