"""``primus direct [options] -- COMMAND``: run a command with the direct launcher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from primus_core.cli.arguments import Parser
from primus_core.cli.main import find_command
from primus_core.errors import ConfigError


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Give the command the options of the mode."""
    before, after = _split(argv)
    parser = Parser(prog="primus direct", description="Run a command on this host with torchrun.", allow_abbrev=False)
    parser.add_argument("--nproc", metavar="N", help="ranks on this node")
    parser.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help="environment of the ranks")
    parser.add_argument("--dry-run", action="store_true", help="print the commands that would run")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    args = parser.parse_args(before)
    if not after:
        raise ConfigError("no command after `--`", remedy="primus direct -- train pretrain --config exp.yaml")
    if after[0] not in ("train", "run", "plan"):
        raise ConfigError(f"`direct` cannot start {after[0]!r}", remedy="train, run or plan")
    options = ["--launcher", "direct"]
    options += ["--nproc", args.nproc] if args.nproc else []
    options += [word for pair in args.env for word in ("--env", pair)]
    options += ["--dry-run"] * args.dry_run + ["--debug"] * args.debug
    return find_command(after[0])([*options, *after[1:]], env)


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    words = list(argv)
    if "--" not in words:
        return words, []
    index = words.index("--")
    return words[:index], words[index + 1 :]
