"""``primus config translate EXP --to F``: what becomes of every parameter with a back end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from primus_core.cli.config.asking import Asker, add_format, add_hardware, add_overrides, config_parser
from primus_core.codec import to_json
from primus_core.errors import ConfigError, ExitCode
from primus_core.explain.table import Row, Table, table
from primus_core.explain.verdicts import hardware
from primus_core.yamlfile import written

_HEADINGS = {
    "mapped": "reach the library as they were set",
    "adjusted": "reach it with another value",
    "added": "are set for it beside what was asked",
    "core": "are read by Primus itself",
    "unused": "do not reach it",
    "refused": "keep it from training",
}
_LONGEST_VALUE = 60


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Print the table; returns 2 where the back end refuses the experiment."""
    about = (
        "Print what becomes of every parameter with a back end. "
        "Exit code 0: it can be trained, 2: something is refused."
    )
    parser = config_parser("translate", about)
    parser.add_argument("experiment", help="experiment file (YAML)")
    parser.add_argument("--to", metavar="F", help="the back end; default: the one that the experiment names")
    add_overrides(parser)
    add_format(parser)
    add_hardware(parser)
    args = parser.parse_intermixed_args(argv)
    if args.to and args.framework not in (None, args.to):
        raise ConfigError(f"--to {args.to} and --framework {args.framework}", remedy="name one back end, with --to")
    asker = Asker.of(args, env)
    if args.to is not None:
        asker = asker.with_framework(args.to)
    judged = asker.judged(args.experiment)
    found = table(judged, asker.words(judged).library, hardware(judged))
    text = to_json(found) if args.format == "json" else "\n".join(_lines(found))
    asker.tell(text.rstrip("\n"), judged.experiment)
    return ExitCode.OK if found.is_whole else ExitCode.USAGE


def _lines(found: Table) -> Iterator[str]:
    yield f"{found.framework}: {found.judged_for or 'nothing is judged, since the experiment has errors'}"
    for outcome, heading in _HEADINGS.items():
        rows = [row for row in found.rows if row.outcome == outcome]
        if rows:
            yield ""
            yield f"{outcome}: {len(rows)} {heading}"
            yield from map(_line, rows)


def _line(row: Row) -> str:
    asked = f"{row.path}: {_short(row)}" if row.path else ""
    reaches = f"{row.native} = {_cut(written(row.used))}" if row.native else ""
    if row.outcome == "mapped" and row.path == row.native:
        asked, reaches = "", f"{row.native} = {_cut(written(row.used))}"
    line = "  " + "  ->  ".join(filter(None, (asked, reaches)))
    return f"{line}  # {row.why}" if row.why and line.strip() else f"  {row.why}" if row.why else line


def _short(row: Row) -> str:
    return _cut(written(row.asked))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
