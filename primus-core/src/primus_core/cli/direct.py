"""``primus direct [options] -- COMMAND`` and ``primus direct [options] --script PATH -- ARGUMENTS``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import cast

from attrs import evolve

from primus_core.cli.arguments import Parser
from primus_core.cli.launchoptions import add_launch_options, words_of
from primus_core.cli.modes import STARTS, Mode, enter, split, start_command, usage_inside
from primus_core.cli.output import say
from primus_core.errors import ConfigError, ExitCode


def main(argv: Sequence[str], env: Mapping[str, str], mode: Mode | None = None) -> int:
    """Give the command, or the script, the options of the mode.

    Args:
        mode: what stands before; its launcher starts the ranks.
    """
    before, after = split([*(mode.options if mode else ()), *argv])
    parser = _parser()
    args = _parse(parser, before)
    args.mode = mode.within("direct", (), {}, ()) if mode else None
    options = words_of(parser, args)
    if args.output and not args.script:
        raise ConfigError("--output without --script", remedy="primus direct -- plan exp.yaml --output FILE")
    if args.script:
        args.launcher = None if args.single or mode else "direct"
        from primus_core.cli.script import run_script  # here: a command does without it

        return run_script(args, [*args.arguments, *(after or [])], options, env)
    return _command(args, options, after or [], env)


def _parse(parser: Parser, words: Sequence[str]) -> argparse.Namespace:
    try:
        return cast(argparse.Namespace, parser.parse_intermixed_args(words))
    except ConfigError as error:
        if "--script" in words and error.what.startswith("unrecognized arguments"):
            remedy = "write the arguments of the program after `--`"
            raise ConfigError(error.what, remedy=remedy) from None
        raise


def _parser() -> Parser:
    parser = Parser(
        prog="primus direct",
        usage="primus direct [options] -- COMMAND ...\n       primus direct [options] --script PATH [-- ARGUMENT ...]",
        description="Run a command, or a Python program of your own, on this host with torchrun.",
        epilog="`primus direct -- --help` lists the commands; `primus direct -- train --help` explains one.",
        allow_abbrev=False,
    )
    parser.add_argument("--script", metavar="PATH", help="run this Python program as each rank, without an experiment")
    add_launch_options(parser, defaults="--config")
    parser.add_argument("--run-id", metavar="ID", help="name of the run; default: start time and a random part")
    parser.add_argument("--skip-preflight", action="store_true", help="leave out the checks of preflight plugins")
    parser.add_argument("--output", metavar="FILE", help="with --script: write the plan there and start nothing")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help=argparse.SUPPRESS)
    parser.set_defaults(launcher=None, allow_patch_drift=[])
    return parser


def _command(args: argparse.Namespace, options: Sequence[str], after: Sequence[str], env: Mapping[str, str]) -> int:
    if args.arguments:
        word = args.arguments[0]
        raise ConfigError(f"{word!r} stands before `--`", why="a command comes after it", remedy=f"... -- {word} ...")
    if args.mode:
        return enter("direct", after, env, evolve(args.mode, options=tuple(options)))
    if not after:
        raise ConfigError("no command after `--`", remedy="primus direct -- train pretrain --config exp.yaml")
    from primus_core.cli.main import PACKAGES  # here: it calls this module

    name, *words = after
    if name in ("-h", "--help"):
        say(usage_inside("direct"))
        return ExitCode.OK
    chosen = [] if args.single or "--single" in words else ["--launcher=direct"]
    known = [*chosen, *options] if name in (*STARTS, *PACKAGES) else []
    return start_command("direct", name, [*known, *words], env, None)
