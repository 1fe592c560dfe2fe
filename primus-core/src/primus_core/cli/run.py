"""``primus run exp.yaml``: check, plan, start, and say what came of it."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from primus_core.cli.arguments import run_parser
from primus_core.cli.launching import in_mode, patched, with_launcher_file
from primus_core.cli.modes import Mode
from primus_core.cli.output import complain, say
from primus_core.cli.prepare import Prepared, prepare
from primus_core.errors import ExitCode, raise_all
from primus_core.files import write_atomic
from primus_core.log.console import topic_line
from primus_core.outcome import Finding
from primus_core.plan import Process, RunPlan
from primus_core.rundir import RunDir
from primus_core.yamlfile import dump_experiment

if TYPE_CHECKING:
    from primus_core.submit.consoles import Shows
    from primus_core.submit.peers import Peers  # what starts processes is imported by runs that start some


def main(argv: Sequence[str], env: Mapping[str, str], mode: Mode | None = None) -> int:
    """Run one experiment; returns the exit code."""
    parser = run_parser("primus run", "Train a model from an experiment file.")
    return run(in_mode(parser.parse_intermixed_args(argv), mode), env)


def run(args: argparse.Namespace, env: Mapping[str, str]) -> int:
    """Plan what the arguments ask for and start it; returns the exit code."""
    args = with_launcher_file(args, env)
    if args.dry_run:
        prepared = prepare(args, patched(args, env), starts=False)
        warn(prepared)
        say(_dry_run(args, prepared))
        return ExitCode.OK
    from primus_core.cli.copying import console_of  # here: a dry run does without what starts processes
    from primus_core.cli.neighbours import told_to_the_others

    with console_of(args, env) as console:
        with told_to_the_others(args, env):
            shell = patched(args, env)
            prepared = prepare(args, shell)
        warn(prepared)
        return start(prepared, shell, console, silent=args.silent)


def start(prepared: Prepared, env: Mapping[str, str], console: Shows | None, *, silent: bool) -> int:
    """Write the plan and start it; returns the exit code."""
    if prepared.place is not None:
        from primus_core.cli.several import start_one_of_several  # here: most runs have one node

        return start_one_of_several(prepared, prepared.place, env, console, silent=silent)
    if prepared.submission.detached:
        from primus_core.cli.submitting import hand_over_plan  # here: most runs are waited for

        say(headline(prepared.plan))
        write_plan(prepared)
        tell_model(prepared)
        return hand_over_plan(prepared, silent=silent)
    with experiment_of(prepared.plan, env):
        say(headline(prepared.plan))
        write_plan(prepared)
        tell_model(prepared)
        return submit_plan(prepared, console, silent=silent)


@contextmanager
def experiment_of(plan: RunPlan, env: Mapping[str, str], *, again: bool = False) -> Iterator[None]:
    """Have the experiment's folder alone. A program without an experiment shares no files.

    Args:
        again: a scheduler has ended an earlier start of the same run.

    Raises:
        RunError: another run has it.
    """
    if plan.experiment is None:
        yield
        return
    from primus_core.lock import ExperimentLock  # here: a dry run takes none

    with ExperimentLock(RunDir(Path(plan.run_dir)), again=again) as lock:
        if gone := lock.left_behind:
            complain(f"warning: the lock of run {gone.run_id} is taken over: its process is gone\n", env)
        yield


def write_plan(prepared: Prepared) -> None:
    """Write the plan and the resolved experiment into the run directory."""
    from primus_core.codec import to_json  # here: a dry run writes nothing

    plan = prepared.plan
    rundir = RunDir(Path(plan.run_dir))
    write_code(prepared)
    try:
        write_atomic(rundir.plan, to_json(plan))
        if experiment := prepared.resolved:
            write_atomic(rundir.resolved, dump_experiment(experiment))
        rundir.point_latest()
    except OSError as error:
        raise rundir.unwritable(error) from None


def tell_model(prepared: Prepared) -> None:
    """Say how large the model is, what it is projected to need, and what of that is not here.

    Raises:
        RunError: something is not here, and warnings are errors.
    """
    from primus_core.cli.projection.running import foretell  # here: a dry run projects nothing

    foretold = foretell(prepared.plan, prepared.hosts)
    for line in foretold.lines:
        say(line)
    if prepared.plan.preflight == "strict":
        raise_all([finding.as_error() for finding in foretold.findings])
    for finding in foretold.findings:
        complain(_warning(finding), prepared.env)


def write_code(prepared: Prepared) -> None:
    """Write the copy of Primus that the ranks run, where they run without an installed one."""
    if not prepared.submission.carries_code:
        return
    from primus_core import bundle  # here: most runs do without

    rundir = RunDir(Path(prepared.plan.run_dir))
    try:
        bundle.write(rundir.submission / bundle.FOLDER, prepared.plan)
    except OSError as error:
        raise rundir.unwritable(error) from None


def write_files(prepared: Prepared) -> None:
    """Write what the launcher has beside the plan: a job's script."""
    if not prepared.submission.files:
        return
    from primus_core.submit import files  # here: most runs have none

    files.write_files(RunDir(Path(prepared.plan.run_dir)), prepared.submission)


def submit_plan(prepared: Prepared, console: Shows | None, *, silent: bool, peers: Peers | None = None) -> int:
    """Start the plan's processes and tell what came of them; returns the exit code."""
    from primus_core import report, submit  # here: a dry run does without them
    from primus_core.submit.peers import ALONE

    peers = peers or ALONE
    ended = submit.submit(prepared.submission, prepared.plan, env=prepared.env, console=console, peers=peers)
    if not peers.leads:
        return ended.exit_code
    screen = report.screen(ended, prepared.plan)
    if silent and ended.exit_code:
        complain(f"{screen}\n", prepared.env)
    else:
        say(screen)
    return ended.exit_code


def headline(plan: RunPlan) -> str:
    """What is run, and where."""
    target = plan.target
    counted = "node" if plan.task.kind == "preflight" else "rank"  # of which a preflight has one on each
    many = f"{target.world_size} {counted}{'s' * (target.world_size != 1)}"
    with_what = f" with {plan.framework} {target.library_version}" if plan.framework else ""
    what = topic_line(plan.task.kind, f"{plan.job.name}{with_what} on {target.accelerator}, {many} ({_how(plan)})")
    return f"{what}\n{topic_line('run', plan.run_dir)}"


def _how(plan: RunPlan) -> str:
    """``slurm``; ``slurm, container rocm/primus:v26.3`` where the ranks are in one."""
    image = plan.job.sections.get("container", {}).get("image")
    if "container" not in (plan.launcher, plan.job.inside) or not image:
        return plan.launcher
    outer = f"{plan.launcher}, " if plan.launcher != "container" else ""
    return f"{outer}container {image}"


def warn(prepared: Prepared) -> None:
    """Tell what the checks warn of."""
    for finding in prepared.warnings:
        complain(_warning(finding), prepared.env)


def _warning(finding: Finding) -> str:
    details = "".join(f"\n  {line}" for text in (finding.evidence, finding.remedy) for line in text.splitlines())
    return f"warning: {finding.summary}{details}\n"


def _dry_run(args: argparse.Namespace, prepared: Prepared) -> str:
    plan = prepared.plan
    patches = len(plan.translation.patches) if plan.translation else 0
    lines = [headline(plan), topic_line("patches", f"{patches} planned")]
    return "\n".join([*lines, *commands_of(prepared, args.patch, plan_argv(args, plan))])


def commands_of(prepared: Prepared, scripts: Sequence[str], plan_command: Sequence[str]) -> list[str]:
    """The two commands that do what a dry run left out, and what they need before."""
    before = [topic_line("source", f"{path}, before the commands: a dry run does not run it") for path in scripts]
    before += [topic_line("export", f"{name}, before the commands") for name in prepared.asked_secrets]
    for name, text in prepared.submission.files.items():
        before += [topic_line("script", f"{name}, which the first command writes:"), *_indented(text)]
    if place := prepared.place:
        told = f"{place.rank} of {place.nodes}: the same --run-id in the dry runs of all makes them one run"
        before += [topic_line("node", told)]
    commands = [f"{pasteable(plan_command)} &&", *map(_command, prepared.submission.processes)]
    return [*before, "", *commands]


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def plan_argv(args: argparse.Namespace, plan: RunPlan) -> list[str]:
    """The command that writes the same plan to the place where the ranks look for it."""
    secret = tuple(f"env.{name}=" for name in plan.secrets)
    overrides = [word for word in args.overrides if not word.startswith(secret)]
    named = [word.removeprefix("env.") for word in args.overrides if word.startswith(secret)]
    modes = args.mode.words if args.mode else ()
    launcher = [] if args.mode else ["--launcher", plan.launcher]
    argv = ["primus", *modes, "plan", args.experiment, *overrides, *launcher, "--run-id", plan.run_id]
    argv += ["--framework", args.framework] if args.framework is not None else []
    argv += ["--nproc", str(args.nproc)] if args.nproc is not None else []
    for option, word in (("--hosts", args.hosts), ("--hostfile", args.hostfile)):
        argv += [option, word] if word is not None else []
    argv += ["--single"] * args.single
    argv += [{"on": "--numa", "off": "--no-numa"}[args.numa]] if args.numa else []
    argv += ["--launcher-config", args.launcher_config] if args.launcher_config else []
    for option, values in (
        ("--env", [without_secret(pair, plan) for pair in (*args.env, *named)]),
        ("--env_file", args.env_file),
        ("--preset-path", args.preset_path),
        ("--allow-patch-drift", args.allow_patch_drift),
    ):
        argv += [word for value in values for word in (option, value)]
    argv += ["--preflight", args.preflight] * (args.preflight != "on")
    argv += ["--skip-preflight"] * args.skip_preflight + ["--strict"] * args.strict + ["--debug"] * args.debug
    return [*argv, "--output", plan.job.argv[-1]]


def without_secret(pair: str, plan: RunPlan) -> str:
    """``NAME=VALUE`` as it may be shown: of a secret the name alone."""
    name = pair.partition("=")[0]
    return name if name in plan.secrets else pair


def pasteable(words: Sequence[str]) -> str:
    """The words as bash reads them; what is no UTF-8 as ``$'\\xff'``."""
    return " ".join(shlex.quote(word) if word.isprintable() else _escaped(word) for word in words)


def _escaped(word: str) -> str:
    known = {"\n": "\\n", "\t": "\\t", "'": "\\'", "\\": "\\\\"}
    return "$'" + "".join(known.get(sign) or _sign(sign) for sign in word) + "'"


def _sign(sign: str) -> str:
    return sign if sign.isprintable() else "".join(f"\\x{byte:02x}" for byte in os.fsencode(sign))


def _command(process: Process) -> str:
    env = [f"{name}={value}" for name, value in process.env.items()]
    return pasteable([*(["env", *env] if env else []), *process.argv])
