"""``primus direct --script PATH -- ARGUMENTS``: run a Python program of one's own under the launcher."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from primus_core import discovery
from primus_core.cli.launching import patched, with_launcher_file
from primus_core.cli.launchoptions import kept_references
from primus_core.cli.output import say
from primus_core.cli.prepare import (
    Prepared,
    accelerators_for,
    launcher_sections,
    make_request,
    nodes_of,
    place_for,
    placed,
)
from primus_core.cli.run import commands_of, headline, start, warn
from primus_core.codec import to_json
from primus_core.errors import ConfigError, ExitCode, RunError, raise_all
from primus_core.files import write_atomic
from primus_core.hooks import load_host
from primus_core.outcome import Where
from primus_core.planning.launcheroptions import typed_sections
from primus_core.planning.refusals import refuse_used
from primus_core.planning.script import script_plan
from primus_core.planning.secrets import split_secrets
from primus_core.rundir import RunDir


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
            prepared = _prepare(args, words, shell)
        warn(prepared)
        return start(prepared, shell, console, silent=args.silent)


def _plan_only(args: argparse.Namespace, words: Sequence[str], options: Sequence[str], env: Mapping[str, str]) -> int:
    prepared = _prepare(args, words, patched(args, env))
    warn(prepared)
    if args.dry_run:
        plan = prepared.plan
        chosen = [word for word in options if word not in ("--dry-run", "--silent") and not word.startswith("--patch=")]
        chosen += [f"--run-id={plan.run_id}", f"--output={plan.job.argv[-1]}", f"--script={args.script}"]
        modes = args.mode.words[:-2] if args.mode else ()  # the last one is this mode itself, and its dashes
        argv = ["primus", *modes, "direct", *chosen, "--", *words]
        say("\n".join([headline(plan), *commands_of(prepared, args.patch, argv)]))
        return ExitCode.OK
    try:
        write_atomic(args.output, to_json(prepared.plan))
    except OSError as error:
        raise RunError("cannot write the plan", where=args.output, why=str(error)) from None
    return ExitCode.OK


def _prepare(args: argparse.Namespace, words: Sequence[str], shell: Mapping[str, str]) -> Prepared:
    plugins = discovery.scan()
    request = make_request(args, shell, plugins)
    hosts = load_host(plugins, backend=None, launcher=request.launcher, preflight=not args.skip_preflight)
    request, sections = placed(request, args.mode, launcher_sections(args, shell, {}))
    typed = typed_sections(sections)
    if args.hosts is not None or args.hostfile is not None or request.launcher == "ssh":
        raise ConfigError(
            "--script runs on this host, or on one of several that are started one by one",
            why="the launcher ssh starts experiments",
            remedy="leave --hosts, --hostfile and --launcher out; NNODES and NODE_RANK say which node this is",
        )
    place = place_for(request.launcher, {**shell, **request.env}, typed.get("direct", {}))
    plan = script_plan(
        args.script,
        words,
        request=request,
        sections=sections,
        found=accelerators_for(request, typed),
        nodes=nodes_of(request, typed, place),
        distributions=discovery.distributions(plugins),
    )
    if place is None or place.leads:
        refuse_used(RunDir(Path(plan.run_dir)))
    findings = hosts.preflight(plan, Where.SUBMIT)
    raise_all([finding.as_error() for finding in findings if finding.severity == "error"])
    secrets = split_secrets(request.env)[1]
    return Prepared(
        plan=plan,
        place=place,
        hosts=hosts,
        submission=hosts.launch(plan.job),
        warnings=(*kept_references(args, shell), *(one for one in findings if one.severity == "warning")),
        env={**shell, **secrets},
        asked_secrets=tuple(sorted(secrets)),
    )
