"""``primus direct --script PATH -- ARGUMENTS``: run a Python program of one's own under the launcher."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from primus_core import discovery
from primus_core.cli.launching import patched, with_launcher_file
from primus_core.cli.launchoptions import kept_references
from primus_core.cli.output import say
from primus_core.cli.plan import write_planned
from primus_core.cli.prepare import (
    Prepared,
    accelerators_for,
    as_warning,
    launcher_sections,
    make_request,
    nodes_of,
    place_for,
    placed,
)
from primus_core.cli.run import commands_of, headline, start, warn, without_secret
from primus_core.errors import ConfigError, ExitCode, raise_all
from primus_core.hooks import load_host
from primus_core.outcome import Where
from primus_core.plan import RunPlan
from primus_core.planning.launcheroptions import typed_sections
from primus_core.planning.refusals import refuse_used
from primus_core.planning.script import script_plan
from primus_core.planning.secrets import split_secrets
from primus_core.planning.sections import SLURM, unused_variable
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
            prepared = _prepare(args, words, shell, starts=True)
        warn(prepared)
        return start(prepared, shell, console, silent=args.silent)


def _plan_only(args: argparse.Namespace, words: Sequence[str], options: Sequence[str], env: Mapping[str, str]) -> int:
    prepared = _prepare(args, words, patched(args, env), starts=False)
    warn(prepared)
    if args.dry_run:
        plan = prepared.plan
        chosen = [*_shown(options, plan), f"--run-id={plan.run_id}", f"--output={plan.job.argv[-1]}"]
        modes = args.mode.words[:-2] if args.mode else ()  # the last one is this mode itself, and its dashes
        argv = ["primus", *modes, "direct", *chosen, "--", *words]
        say("\n".join([headline(plan), *commands_of(prepared, args.patch, argv)]))
        return ExitCode.OK
    write_planned(prepared, args.output)
    return ExitCode.OK


def _shown(options: Sequence[str], plan: RunPlan) -> Iterator[str]:
    """The options for the command that writes the same plan, without values of secrets."""
    for word in options:
        option, _, value = word.partition("=")
        if option == "--env":
            yield f"{option}={without_secret(value, plan)}"
        elif option not in ("--dry-run", "--silent", "--patch"):
            yield word


def _prepare(args: argparse.Namespace, words: Sequence[str], shell: Mapping[str, str], *, starts: bool) -> Prepared:
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
    if not starts or "output_script" in typed.get(SLURM, {}):
        findings = tuple(as_warning(finding, plan.launcher) for finding in findings)
    raise_all([finding.as_error() for finding in findings if finding.severity == "error"])
    secrets = split_secrets({**request.launcher_env, **request.env})[1]
    return Prepared(
        plan=plan,
        place=place,
        hosts=hosts,
        submission=hosts.launch(plan.job),
        warnings=(
            *kept_references(args, shell),
            *unused_variable(sections),
            *(one for one in findings if one.severity == "warning"),
        ),
        env={**shell, **secrets},
        asked_secrets=tuple(sorted(secrets)),
    )
