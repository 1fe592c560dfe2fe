"""``primus direct --script PATH -- ARGUMENTS``: run a Python program of one's own under the launcher."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from primus_core.cli.launching import patched, with_launcher_file
from primus_core.cli.prepare import Prepared
from primus_core.cli.run import start, warn
from primus_core.cli.tasks import Given, prepare_task, tell_or_write
from primus_core.errors import ConfigError, ExitCode
from primus_core.plan import RunPlan
from primus_core.planning.script import script_plan


def run_script(args: argparse.Namespace, words: Sequence[str], options: Sequence[str], env: Mapping[str, str]) -> int:
    """Plan the program and start it; returns the exit code.

    Args:
        words: the program's arguments.
        options: the words that give another command the options of ``args``.
    """
    args = with_launcher_file(args, env)
    if args.dry_run or args.output:
        return _plan_only(args, words, options, env)
    from primus_core.cli.copying import console_of  # here: a dry run does without what starts processes
    from primus_core.cli.neighbours import told_to_the_others

    with console_of(args, env) as console:
        with told_to_the_others(args, env):
            shell = patched(args, env)
            prepared = _prepare(args, words, shell, starts=True)
        warn(prepared)
        return start(prepared, shell, console, silent=args.silent)


def _plan_only(args: argparse.Namespace, words: Sequence[str], options: Sequence[str], env: Mapping[str, str]) -> int:
    prepared = _prepare(args, words, patched(args, env), starts=False)
    warn(prepared)
    modes = args.mode.words[:-2] if args.mode else ()  # the last one is this mode itself, and its dashes
    tell_or_write(prepared, args, before=["primus", *modes, "direct"], options=options, after=["--", *words])
    return ExitCode.OK


def _prepare(args: argparse.Namespace, words: Sequence[str], shell: Mapping[str, str], *, starts: bool) -> Prepared:
    if args.hosts is not None or args.hostfile is not None:
        raise ConfigError(
            "--script runs on this host, or on one of several that are started one by one",
            why="the launcher ssh starts experiments",
            remedy="leave --hosts, --hostfile and --launcher out; NNODES and NODE_RANK say which node this is",
        )

    def plan_of(given: Given) -> RunPlan:
        return script_plan(
            args.script,
            words,
            request=given.request,
            sections=given.sections,
            found=given.found,
            nodes=given.nodes,
            distributions=given.distributions,
        )

    return prepare_task(args, shell, plan_of, starts=starts)
