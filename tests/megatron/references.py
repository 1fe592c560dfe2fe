"""The experiments that users bring, with the values that they mean, where this machine has them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import cast

import pytest
from attrs import frozen

from primus_core import discovery
from primus_core.experiment import Leaf, Origin, Value
from primus_core.parameters import Parameter, coerce
from primus_core.pipeline import Judged, Scope, judge
from primus_core.planning.accelerators import Found
from primus_core.planning.job import Request
from primus_core.resolve import resolve

FOLDER = Path(__file__).parents[3] / "shared/reference"
"""Beside the repository; it is no part of it."""

needs_reference = pytest.mark.skipif(not FOLDER.exists(), reason=f"there are no reference experiments: {FOLDER}")


@frozen(kw_only=True)
class Reference:
    """One experiment."""

    name: str
    judged: Judged
    """For GPUs, 8 a node, and as many nodes as it takes; no data and no checkpoint is looked at."""
    wanted: Mapping[str, Value]
    """What it means where it comes from, by that product's names."""

    def typed(self, name: str, parameter: Parameter) -> Value:
        """What a parameter is meant to be, in its type here; its default where null says no more."""
        value = self.wanted[name]
        if value is None and not parameter.nullable:
            return typed(parameter, parameter.default)
        return typed(parameter, value)


def typed(parameter: Parameter, value: Value) -> Value:
    """A value as a user's file would give it; 1 is true there, and ``"1"`` where anything may stand is 1."""
    if parameter.type == "bool" and value in (0, 1):
        return bool(value)
    if parameter.type == "any" and isinstance(value, str) and value.isdecimal():
        return int(value)
    return coerce(parameter, Leaf(value=value, origin=Origin(file="reference")))


def megatron_references() -> tuple[Reference, ...]:
    """Every experiment for Megatron."""
    return references_for("megatron")


@cache
def references_for(framework: str, overrides: tuple[str, ...] = ()) -> tuple[Reference, ...]:
    """Every experiment for a framework, resolved under overrides, translated and judged."""
    resolved = json.loads((FOLDER / "experiments-resolved.json").read_text(encoding="utf-8"))
    names = sorted(
        path.relative_to(FOLDER / "experiments") for path in FOLDER.glob(f"experiments/{framework}/*/*.yaml")
    )
    plugins = discovery.scan()
    return tuple(
        Reference(name=name.stem, judged=_judged(name, plugins, overrides), wanted=_only(resolved[str(name)]))
        for name in names
    )


def _judged(name: Path, plugins: discovery.Plugins, overrides: Sequence[str]) -> Judged:
    experiment = resolve(
        str(FOLDER / "experiments" / name),
        overrides=overrides,
        env={},
        preset_dirs=lambda framework: discovery.preset_dirs(plugins, framework),
        cwd=str(FOLDER),
    )
    scope = Scope(
        request=Request(launcher="single", run_id="run", ranks_per_node=8),
        found=Found(kind="cuda", count=8),
        nodes=None,
        launcher=False,
        preflight=False,
        files=False,
    )
    return judge(experiment, plugins, scope)


def _only(modules: Mapping[str, Mapping[str, Value]]) -> Mapping[str, Value]:
    (module,) = modules.values()
    return cast("Mapping[str, Value]", module)
