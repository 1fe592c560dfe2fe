"""``primus config diff A B``: how two experiments differ in meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from primus_core.cli.config.asking import Asker, add_format, add_hardware, add_overrides, config_parser, without_errors
from primus_core.codec import to_json
from primus_core.errors import ExitCode
from primus_core.explain.differences import Difference, Side, Subject, differences
from primus_core.yamlfile import written

DIFFERENT = 1
"""Exit code, as of `diff`."""


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Print what differs; returns 0 where nothing does, else 1."""
    about = "Tell how two experiments differ in meaning. Exit code 0: not at all, 1: they differ, 2: one is wrong."
    parser = config_parser("diff", about)
    parser.add_argument("before", metavar="A", help="experiment file (YAML)")
    parser.add_argument("after", metavar="B", help="experiment file (YAML)")
    add_overrides(parser)
    add_format(parser)
    add_hardware(parser)
    args = parser.parse_intermixed_args(argv)
    asker = Asker.of(args, env)
    judged = [without_errors(asker.judged(path)) for path in (args.before, args.after)]
    before, after = (Subject.of(one, asker.words(one)) for one in judged)
    found = differences(before, after)
    text = to_json(found) if args.format == "json" else "\n".join(line for one in found for line in _lines(one))
    if found or args.format == "json":
        asker.tell(text.rstrip("\n"), *(one.experiment for one in judged))
    return DIFFERENT if found else ExitCode.OK


def _lines(difference: Difference) -> Iterator[str]:
    yield difference.name
    yield f"- {_shown(difference.before)}"
    yield f"+ {_shown(difference.after)}"


def _shown(side: Side) -> str:
    asked, used = written(side.asked), written(side.used)
    reaches = "" if asked == used else f" (used: {used})"
    return f"{asked}{reaches}  # {side.origin}"
