"""Compare projections with what the libraries do, and write the page.

``python -m tools.accuracy [--output FILE] [--rows DIR [WORD...]]``; exits 1 where a row is off by more than allowed, or
a group has not all its rows, and 2 for a WORD that no title has.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.accuracy.document import document
from tools.accuracy.groups import GROUPS, Group
from tools.accuracy.rows import Outcome, kept, run

ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str], groups: Sequence[Group] = GROUPS, root: Path = ROOT) -> int:
    """Returns the exit code; the page has all groups always.

    Args:
        root: where the groups' programs are started.
    """
    args = _parsed(arguments, groups, root)
    with tempfile.TemporaryDirectory() as folder:
        rows = args.rows or Path(folder)
        rows.mkdir(parents=True, exist_ok=True)
        outcomes = {group: _told(group, _outcome(group, args.words, rows, root)) for group in groups}
    args.output.write_text(document(outcomes), encoding="utf-8")
    return int(any(outcome.problem or outcome.off(group) for group, outcome in outcomes.items()))


def _parsed(arguments: Sequence[str], groups: Sequence[Group], root: Path) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.accuracy", description=__doc__)
    words = "measure again the groups with such a word in the title, and none else; needs --rows"
    parser.add_argument("words", nargs="*", metavar="WORD", help=words)
    parser.add_argument("--output", default=root / "docs/accuracy.md", metavar="FILE", type=Path)
    about = "keep the rows of each group in DIR/MODULE.jsonl, and take from there those that are whole"
    parser.add_argument("--rows", metavar="DIR", type=Path, help=about)
    args = parser.parse_args(arguments)
    for word in args.words:
        if not any(word in group.title for group in groups):
            parser.error(f"no group has {word!r} in its title: {'; '.join(group.title for group in groups)}")
    if args.words and not args.rows:
        parser.error("a WORD needs --rows DIR, from which the other groups are taken: the page has all of them")
    return args


def _outcome(group: Group, words: Sequence[str], rows: Path, root: Path) -> Outcome:
    """Measured now, or what is kept: with words only their groups are measured, and they always."""
    if any(word in group.title for word in words):
        return run(group, root, rows)
    found = kept(group, rows)
    if words:
        return found or Outcome(rows=(), seconds=0.0, problem="not measured")
    return found if found and found.whole else run(group, root, rows)


def _told(group: Group, outcome: Outcome) -> Outcome:
    """Say on the screen what came of a group."""
    state = outcome.problem or f"{len(outcome.rows)} rows, {outcome.off(group)} beyond {group.allowed}"
    print(f"{group.title}: {state} ({outcome.seconds:.0f} s)", flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
