"""``primus benchmark SUITE``: measure devices and the links between them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from primus_core.cli.launching import in_mode, patched, with_launcher_file
from primus_core.cli.launchoptions import words_of
from primus_core.cli.modes import Mode
from primus_core.cli.output import say
from primus_core.cli.prepare import Prepared
from primus_core.cli.run import start, warn
from primus_core.cli.tasks import Given, prepare_task, tell_or_write
from primus_core.errors import ConfigError, ExitCode
from primus_core.parameters import nearest
from primus_core.plan import Accelerator, Mount, RunPlan, Task
from primus_core.planning.launcheroptions import typed_sections
from primus_core.planning.ranks import ranks_per_node
from primus_core.planning.secrets import named_secrets
from primus_core.planning.task import task_folder, task_plan, task_workspace
from primus_preflight.cli.benchmark.asking import Arguments, arguments_of
from primus_preflight.cli.benchmark.options import ABOUT, parser_of
from primus_preflight.cli.benchmark.showing import tables_of

ENTRY = "primus_preflight.kernels.entry:run"
_COLLECTIVES = ("rccl", "strided-allgather")


def main(argv: Sequence[str], env: Mapping[str, str], mode: Mode | None = None) -> int:
    """The command; returns its exit code."""
    suite = next((word for word in argv if word in ABOUT), None)
    if suite is None:
        return _no_suite(argv)
    words = list(argv)
    words.remove(suite)
    parser = parser_of(suite)
    args = with_launcher_file(in_mode(parser.parse_args(words), mode), env)
    arguments = arguments_of(suite, args, env)
    if args.dry_run or args.output:
        prepared = _prepare(args, arguments, patched(args, env), starts=False)
        warn(prepared)
        before = ["primus", *(args.mode.words if args.mode else ()), "benchmark", suite]
        tell_or_write(prepared, args, before=before, options=words_of(parser, args))
        return ExitCode.OK
    return _run(args, arguments, env)


def _no_suite(argv: Sequence[str]) -> int:
    usage = "\n".join(f"  {name:<20}{about}" for name, about in ABOUT.items())
    if not argv or {"-h", "--help"} & set(argv):
        say(
            f"usage: primus [MODE ... --] benchmark SUITE [options]\n\nsuites:\n{usage}\n\n"
            "`primus benchmark SUITE --help` explains one."
        )
        return ExitCode.OK
    meant = next(filter(None, (nearest(word, [*ABOUT]) for word in argv if not word.startswith("-"))), None)
    remedy = f"did you mean {meant}?" if meant else f"one of {', '.join(ABOUT)}"
    raise ConfigError("no suite of benchmarks is named", why=" ".join(argv), remedy=remedy)


def _run(args: argparse.Namespace, arguments: Arguments, env: Mapping[str, str]) -> int:
    from primus_core.cli.copying import console_of  # here: a dry run does without what starts processes
    from primus_core.cli.neighbours import told_to_the_others

    with console_of(args, env) as console:
        with told_to_the_others(args, env):
            shell = patched(args, env)
            prepared = _prepare(args, arguments, shell, starts=True)
        warn(prepared)
        code = start(prepared, shell, console, silent=args.silent)
        if prepared.place is None or prepared.place.leads:
            for text in tables_of(Path(prepared.plan.run_dir), arguments):
                say(text)
        return code


def _prepare(args: argparse.Namespace, arguments: Arguments, env: Mapping[str, str], *, starts: bool) -> Prepared:
    return prepare_task(args, env, lambda given: _plan(given, arguments, args.accelerator), starts=starts)


def _plan(given: Given, arguments: Arguments, accelerator: Accelerator | None) -> RunPlan:
    request, suite = given.request, str(arguments["suite"])
    kind = accelerator or given.found.kind
    env = {**request.shell, **request.launcher_env, **request.env}
    ranks = ranks_per_node(
        request.ranks_per_node,
        request.launcher,
        typed_sections(named_secrets(given.sections)),
        env=env,
        kind=kind,
        found=given.found,
        origins=given.sections,
    )
    _check_ranks(arguments, ranks * given.nodes)
    if kind == "cpu" and arguments["dtype"] == "fp8":
        why = "torch emulates fp8 on CPUs, element by element"
        raise ConfigError("--dtype fp8 on a CPU", why=why, remedy="measure bf16, or run where GPUs are")
    return task_plan(
        f"benchmark-{suite}",
        Task(kind="benchmark", entry=ENTRY, arguments=arguments, ranks_per_node=ranks),
        folder=task_folder("benchmarks", suite, env, request.cwd),
        request=request,
        sections=given.sections,
        accelerator=kind,
        nodes=given.nodes,
        distributions=given.distributions,
        mounts=_mounts(arguments, task_workspace(env, request.cwd)),
    )


def _check_ranks(arguments: Arguments, ranks: int) -> None:
    """Refuse groups in which there is nobody to send to.

    Raises:
        ConfigError: says how many ranks it takes.
    """
    suite, stride = arguments["suite"], arguments.get("stride")
    if suite in _COLLECTIVES and ranks < 2:
        why = "one rank alone has nobody to send to"
        raise ConfigError(f"{suite} with one rank", why=why, remedy="--nproc 2, or more nodes")
    if isinstance(stride, int) and (ranks % stride or ranks < 2 * stride):
        fitting = [number for number in range(1, ranks // 2 + 1) if ranks % number == 0]
        raise ConfigError(
            f"--stride {stride} with {ranks} ranks",
            why="each group takes every n-th rank, and all are to have the same number of ranks, 2 or more",
            remedy=f"a stride of {', '.join(map(str, fitting))}",
        )


def _mounts(arguments: Arguments, workspace: str) -> tuple[Mount, ...]:
    """The workspace and the folders of the results."""
    outputs = arguments["outputs"]
    paths = [str(path) for path in outputs.values()] if isinstance(outputs, dict) else []
    folders = [os.path.dirname(path) for path in paths if os.path.isabs(path)]
    return tuple(Mount(path=folder, writable=True) for folder in dict.fromkeys([workspace, *folders]))
