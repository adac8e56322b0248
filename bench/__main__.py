"""Every bench in one run, then one table of all figures beside their bounds: `python -m bench [--short] [--rows N]
[BENCH …]`. Ends with 1 where a bound is missed or was not measured. `--list` says which bench measures which bound.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.bound import BENCHES, BOUNDS, of_bench
from bench.figure import RECORD, Figure, recorded

ROOT = Path(__file__).parent.parent


def run(names: Sequence[str], words: Sequence[str], record: Path) -> None:
    for name in names:
        print(f"\n== bench.{name}", flush=True)
        command = [sys.executable, "-m", f"bench.{name}", *words]
        subprocess.run(command, cwd=ROOT, env={**os.environ, RECORD: str(record)}, check=False)


def table(names: Sequence[str], figures: Sequence[Figure], ended: set[str]) -> int:
    """Prints it; 1 where something is missed, not measured, or a bench ended early."""
    missing = [key for name in names for key in of_bench(name) if key not in {figure.key for figure in figures}]
    early = [name for name in names if name not in ended]
    for name in names:
        print(f"\nbench.{name}")
        for key in of_bench(name):
            bound = f"≤ {BOUNDS[key].spelled}"
            for figure in (one for one in figures if one.key == key):
                print(f"  {figure.title:<78} {figure.measured:>10}  {bound:<42} {figure.verdict}")
            if key in missing:
                print(f"  {BOUNDS[key].figure:<78} {'–':>10}  {bound:<42} NOT MEASURED")
    missed = [figure for figure in figures if not figure.good]
    met = sum(figure.good and figure.judged for figure in figures)
    print(f"\n{met} of {len(figures)} figures met, {len(missed)} MISSED; {len(missing)} bounds not measured")
    for name in early:
        print(f"bench.{name} did not come to its end")
    return 1 if missed or missing or early else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("benches", nargs="*", metavar="BENCH", help=f"of {', '.join(BENCHES)}; all unless given")
    parser.add_argument("--rows", type=int, help="of every bench's store, instead of its own number")
    parser.add_argument("--short", action="store_true", help="small stores and few turns")
    parser.add_argument("--list", action="store_true", help="which bench measures which bound")
    parser.add_argument("--table", type=Path, metavar="FILE", help="only the table of a run that was kept")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep what was measured, a JSON object a line")
    args = parser.parse_args()
    names = tuple(args.benches) or BENCHES
    if unknown := sorted(set(names) - set(BENCHES)):
        parser.error(f"no such bench: {', '.join(unknown)}")
    if args.list:
        for key in (key for name in names for key in of_bench(name)):
            print(f"bench.{key.partition('.')[0]:<8} {BOUNDS[key].figure:<74} ≤ {BOUNDS[key].spelled}")
        return 0
    if args.table:
        return table(names, *recorded(args.table.read_text().splitlines()))
    words = [*(["--short"] if args.short else []), *([f"--rows={args.rows}"] if args.rows else [])]
    with tempfile.TemporaryDirectory() as folder:
        record = args.keep or Path(folder) / "record"
        record.write_text("")
        run(names, words, record)
        return table(names, *recorded(record.read_text().splitlines()))


if __name__ == "__main__":
    sys.exit(main())
