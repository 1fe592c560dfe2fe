"""Telling the other nodes of a run, which the user starts one by one, that this one fails before it comes to them."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Mapping

from primus_core import discovery
from primus_core.cli.launchoptions import asked_env
from primus_core.cli.prepare import resolved
from primus_core.errors import PrimusError
from primus_core.experiment import Value


@contextlib.contextmanager
def told_to_the_others(args: argparse.Namespace, env: Mapping[str, str]) -> Iterator[None]:
    """What fails in this context is told to the other nodes, if there are some that might wait for this one."""
    try:
        yield
    except PrimusError as error:
        launcher = args.mode.launcher if args.mode else args.launcher
        if launcher in (None, "direct") and not args.single:
            from primus_core.nodes.failing import tell_the_others  # here: most runs have one node, and do not fail

            tell_the_others(error, _environment(args, env), _section(args, env))
        raise


def _environment(args: argparse.Namespace, env: Mapping[str, str]) -> Mapping[str, str]:
    with contextlib.suppress(PrimusError):
        return {**env, **asked_env(args, env)}
    return env


def _section(args: argparse.Namespace, env: Mapping[str, str]) -> Mapping[str, Value]:
    """The section `direct:`; nothing where the experiment cannot be read, or there is none."""
    with contextlib.suppress(PrimusError):
        if hasattr(args, "experiment"):
            section = resolved(args.experiment, args, _environment(args, env), discovery.scan()).launchers.get("direct")
            return {name: leaf.value for name, leaf in (section or {}).items()}
    return {}
