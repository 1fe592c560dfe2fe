"""``primus preflight report FILES...``: put results together, judge them again, and write the reports anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from primus_core.cli.arguments import Parser
from primus_preflight.cli.options import add_judging_options
from primus_preflight.cli.outcome import Criteria, tell
from primus_preflight.gathering import read


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """The command; returns the exit code that the preflight would have had."""
    made = Parser(
        prog="primus preflight report",
        description="Put the results of a preflight together, or those of several, and judge them.",
        allow_abbrev=False,
    )
    about = "folder of a preflight or of its run, or single files: node-0.json ..."
    made.add_argument("files", nargs="+", metavar="FILE", help=about)
    made.add_argument("--output", metavar="DIR", help="folder for the reports; default: that of the first FILE")
    add_judging_options(made)
    args = made.parse_args(argv)
    paths = [Path(file) for file in args.files]
    return tell(read(paths), Path(args.output) if args.output else _folder(paths[0]), Criteria.of(args))


def _folder(path: Path) -> Path:
    if path.is_file():
        return path.parent
    return path / "preflight" if (path / "preflight").is_dir() else path
