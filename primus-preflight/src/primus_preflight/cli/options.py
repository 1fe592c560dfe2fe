"""What users may ask of `primus preflight`."""

from __future__ import annotations

import argparse

from primus_core.cli.arguments import Parser
from primus_core.cli.launchoptions import add_launch_options
from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.nodes.place import Place
from primus_core.plan import Target
from primus_preflight.gathering import QUIET_SECONDS
from primus_preflight.model import Group
from primus_preflight.performance import options as performance
from primus_preflight.performance.budget import whole_seconds
from primus_preflight.performance.tokens import QUICK, TOKENS, tests_named

ALL_GROUPS: tuple[Group, ...] = ("host", "gpu", "network")
_SECONDS = 180.0
"""For the looks at nodes, of which each has a limit of its own, and for their start."""


def parser() -> Parser:
    made = Parser(
        prog="primus preflight",
        usage="primus [MODE ... --] preflight [options]\n       primus preflight report FILE ... [options]",
        description="Judge every node before a run is started there: what it has, and with --perf-test what it does.",
        epilog="Without --host, --gpu and --network all three are looked at. "
        "exit codes: 0 nothing wrong, 1 a look or a test could not be done, 2 wrong arguments, 3 failures found. "
        "`primus preflight report --help` explains how results are put together and judged again.",
        allow_abbrev=False,
    )
    add = made.add_argument
    add("--host", action="store_true", help="look at kernel, CPUs, memory, limits, clocks")
    add("--gpu", action="store_true", help="look at accelerators; a node without one is a failure then")
    add("--network", action="store_true", help="look at interfaces, RDMA devices, names, and which node reaches which")
    add("--perf-test", action="store_true", help="run all performance tests")
    add("--tests", metavar="LIST", help=f"run some of them: {','.join(TOKENS)}")
    add("--quick", action="store_true", help=f"run {' and '.join(QUICK)}, with one size")
    about = "what nodes have, where it does not follow from this host, the image or the scheduler's options"
    add("--accelerator", choices=("cpu", "cuda", "rocm"), help=about)
    add("--config", metavar="FILE", help="the experiment that is to run: its launcher, its variables, its own checks")
    about = "seconds after which nodes that have not answered are given up"
    add("--timeout", type=float, metavar="S", help=about)
    about = "limit of each look at a node, instead of its own"
    add("--probe-seconds", type=float, metavar="S", help=about)
    add_judging_options(made)
    performance.add_options(made)
    add_launch_options(made)
    add("--run-id", metavar="ID", help="name of the preflight; the same on all nodes where you start each by hand")
    about = "launcher: one of `primus plugins`, such as ssh with --hosts; default: this host alone"
    add("--launcher", metavar="NAME", help=about)
    add("--skip-preflight", action="store_true", help=argparse.SUPPRESS)
    add("--output", metavar="FILE", help="write the plan there and start nothing")
    made.set_defaults(allow_patch_drift=[])
    return made


def add_judging_options(made: argparse.ArgumentParser) -> None:
    """Those of every command that judges what nodes have seen."""
    made.add_argument("--baseline", metavar="FILE", help="report.json of an earlier preflight to compare figures with")
    made.add_argument("--limits", metavar="FILE", help="YAML with other limits of what is doubtful and what fails")


def tests_of(args: argparse.Namespace) -> tuple[str, ...]:
    """Tokens of the performance tests, in the order in which they run; empty: none is asked for.

    Raises:
        ConfigError: there is no such test.
    """
    if args.tests is not None:
        named = tuple(word.strip() for word in args.tests.split(",") if word.strip())
        return tuple(trial.name for trial in tests_named(named))
    return TOKENS if args.perf_test else QUICK if args.quick else ()


def arguments_of(args: argparse.Namespace) -> dict[str, Value]:
    """What the agents have to know.

    Raises:
        ConfigError: an option has no meaning.
    """
    for option, seconds in (("--timeout", args.timeout), ("--probe-seconds", args.probe_seconds)):
        if seconds is not None and seconds <= 0:
            raise ConfigError(f"{option} {seconds:g}", why="it is a number of seconds", remedy="give more than 0")
    return {
        "groups": list(asked_groups(args) or ALL_GROUPS),
        "asked": list(asked_groups(args)),
        "tests": list(tests_of(args)),
        "quick": args.quick,
        "seconds": args.probe_seconds,
        "timeout": args.timeout,
        "performance": performance.options_of(args),
    }


def asked_groups(args: argparse.Namespace) -> tuple[Group, ...]:
    """What was asked for in so many words."""
    return tuple(group for group in ALL_GROUPS if getattr(args, group))


def performance_of(args: argparse.Namespace, target: Target, place: Place | None) -> performance.Options:
    """How the performance tests run on nodes of this kind; those that are started by hand are waited for longer."""
    given = {**({"join_seconds": place.wait} if place else {}), **performance.options_of(args)}
    return performance.options_for(given, target.accelerator, quick=tests_of(args) == QUICK)


def limit_of(args: argparse.Namespace, nodes: int, options: performance.Options) -> float:
    """Seconds until nodes that have not answered are given up: what their looks and their meetings may take."""
    if args.timeout is not None:
        return float(args.timeout)
    return _SECONDS + whole_seconds(nodes, tests_named(tests_of(args)), options)


def stall_of(options: performance.Options) -> float:
    """Seconds in which nodes that measure each other tell something: two rounds, and meeting again in between."""
    return QUIET_SECONDS + options.join_seconds + 2 * options.seconds
