"""From arguments to the checked plan of a task without experiment, and what a dry run tells of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import field

from primus_core import discovery
from primus_core.cli.launchoptions import kept_references
from primus_core.cli.output import say
from primus_core.cli.plan import write_planned
from primus_core.cli.prepare import (
    Prepared,
    accelerators_for,
    as_warning,
    located,
    make_request,
    nodes_of,
    place_for,
    starts_now,
)
from primus_core.cli.run import commands_of, headline, without_secret
from primus_core.errors import raise_all
from primus_core.experiment import Sections
from primus_core.hooks import load_host
from primus_core.outcome import Finding, Where
from primus_core.plan import RunPlan
from primus_core.planning.accelerators import Found
from primus_core.planning.job import Request
from primus_core.planning.make import known_env
from primus_core.planning.refusals import refuse_used
from primus_core.planning.secrets import split_secrets
from primus_core.planning.sections import unused_variable
from primus_core.records import frozen
from primus_core.rundir import RunDir

_NOT_SHOWN = ("--dry-run", "--silent", "--patch")
"""Options that mean nothing to the command that writes the plan."""


@frozen(kw_only=True)
class Given:
    """What the plan of a task is made from."""

    request: Request
    sections: Sections
    """The options of launchers."""
    found: Found
    nodes: int
    distributions: Mapping[str, str] = field(factory=dict)


def prepare_task(
    args: argparse.Namespace, shell: Mapping[str, str], make: Callable[[Given], RunPlan], *, starts: bool
) -> Prepared:
    """Everything before the first process; writes nothing.

    Args:
        args: with the options of `add_launch_options`, ``run_id``, ``skip_preflight`` and ``launcher``.
        make: makes the plan.
        starts: the task is to be started here; else it is only told what this host lacks to start it.

    Raises:
        PrimusError: anything is wrong with arguments, files, plugins or this host.
    """
    plugins = discovery.scan()
    request = make_request(args, shell, plugins)
    hosts = load_host(plugins, backend=None, launcher=request.launcher, preflight=not args.skip_preflight)
    request, sections, typed = located(args, shell, request, {})
    place = place_for(request.launcher, {**shell, **request.env}, typed.get("direct", {}))
    plan = make(
        Given(
            request=request,
            sections=sections,
            found=accelerators_for(request, typed),
            nodes=nodes_of(request, typed, place),
            distributions=discovery.distributions(plugins),
        )
    )
    rundir = RunDir(Path(plan.run_dir))
    if place is None or place.leads:
        refuse_used(rundir, own=rundir.plan if place and plan.task.runner == "plain" else None)
    findings = hosts.preflight(plan, Where.SUBMIT, known_env(plan, request))
    warnings = _warnings(findings, plan.launcher, starts=starts_now(starts, typed))
    secrets = split_secrets({**request.launcher_env, **request.env})[1]
    return Prepared(
        plan=plan,
        place=place,
        hosts=hosts,
        submission=hosts.launch(plan.job),
        warnings=(*kept_references(args, shell), *unused_variable(sections), *warnings),
        env={**shell, **secrets},
        asked_secrets=tuple(sorted(secrets)),
    )


def _warnings(findings: Sequence[Finding], launcher: str, *, starts: bool) -> list[Finding]:
    """Those that hinder nothing.

    Raises:
        PrimusError: the others.
    """
    found = findings if starts else [as_warning(finding, launcher) for finding in findings]
    raise_all([finding.as_error() for finding in found if finding.severity == "error"])
    return [finding for finding in found if finding.severity == "warning"]


def tell_or_write(
    prepared: Prepared,
    args: argparse.Namespace,
    *,
    before: Sequence[str],
    options: Sequence[str],
    after: Sequence[str] = (),
) -> None:
    """What a dry run prints; with ``--output`` alone the plan is written there.

    Args:
        before: the words of the command that writes the plan, up to its options: ``primus``, modes, ``direct``.
        options: the words that give it the options of ``args``.
        after: the words behind them.
    """
    if not args.dry_run:
        write_planned(prepared, args.output)
        return
    plan = prepared.plan
    chosen = [*_shown(options, plan), f"--run-id={plan.run_id}", f"--output={plan.job.argv[-1]}"]
    say("\n".join([headline(plan), *commands_of(prepared, args.patch, [*before, *chosen, *after])]))


def _shown(options: Sequence[str], plan: RunPlan) -> Iterator[str]:
    """The options, without values of secrets."""
    for word in options:
        option, _, value = word.partition("=")
        if option == "--env":
            yield f"{option}={without_secret(value, plan)}"
        elif option not in _NOT_SHOWN:
            yield word
