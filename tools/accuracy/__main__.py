"""Compare all, or the groups whose title has one of the words given, and write the page.

``python -m tools.accuracy [--output FILE] [--rows DIR] [WORD...]``; exits 1 where a row is off by more than allowed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tools.accuracy.document import document
from tools.accuracy.groups import GROUPS, Group
from tools.accuracy.rows import Outcome, kept, run

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="of titles; default: everything")
    parser.add_argument("--output", default=str(ROOT / "docs/accuracy.md"), metavar="FILE")
    about = "keep the rows of each group's program in DIR/MODULE.jsonl, and take them from there where they are"
    parser.add_argument("--rows", metavar="DIR", type=Path, help=about)
    args = parser.parse_args()
    chosen = [group for group in GROUPS if not args.words or any(word in group.title for word in args.words)]
    with tempfile.TemporaryDirectory() as folder:
        outcomes = {group: _told(group, args.rows or Path(folder)) for group in chosen}
    Path(args.output).write_text(document(outcomes), encoding="utf-8")
    return int(any(outcome.problem or _off(group, outcome) for group, outcome in outcomes.items()))


def _told(group: Group, rows: Path) -> Outcome:
    rows.mkdir(parents=True, exist_ok=True)
    outcome = kept(group, rows) or run(group, ROOT, rows)
    off = _off(group, outcome)
    state = outcome.problem or f"{len(outcome.rows)} rows, {off} beyond {group.allowed} %"
    print(f"{group.title}: {state} ({outcome.seconds:.0f} s)", flush=True)
    return outcome


def _off(group: Group, outcome: Outcome) -> int:
    """How many rows differ by more than the group allows."""
    return sum(row.is_off(group.allowed) for row in outcome.rows)


if __name__ == "__main__":
    sys.exit(main())
