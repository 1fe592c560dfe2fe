"""Variables that suit the GPU model of this host, set where nobody else has set them."""

from __future__ import annotations

from collections.abc import MutableMapping
from pathlib import Path

from attrs import frozen

from primus_core.contract import RankContext
from primus_core.hardware import Variable, find_gpus, variables_of
from primus_core.plan import RunPlan


@frozen(kw_only=True)
class Tuning:
    """What was done for the GPUs that were found."""

    gpus: tuple[str, ...] = ()
    """Different models of this host."""
    added: tuple[Variable, ...] = ()
    kept: tuple[str, ...] = ()
    """Names that somebody had set, to whatever value."""


def tune(plan: RunPlan, env: MutableMapping[str, str], root: Path = Path("/")) -> Tuning:
    """Set the variables of the GPU model; to be called before anything that reads them is imported.

    A variable that the environment has, even an empty one, stays: it comes from the user, the shell or the back end.
    So does one whose value in the experiment's ``env:`` is null, which leaves it unset. Ranks on cpu, and hosts with
    several models, whose ranks would differ, are left as they are.

    Args:
        root: the file system to look at; another one than ``/`` only in tests.
    """
    if plan.target.accelerator == "cpu":
        return Tuning()
    gpus = find_gpus(root)
    wanted = variables_of(gpus[0]) if len(gpus) == 1 else ()
    theirs = {*env, *(plan.experiment.env if plan.experiment else ())}
    added = tuple(variable for variable in wanted if variable.name not in theirs)
    env.update((variable.name, variable.value) for variable in added)
    return Tuning(gpus=gpus, added=added, kept=tuple(one.name for one in wanted if one.name in theirs))


def tell_tuning(tuning: Tuning, rank: RankContext) -> None:
    """One record a variable in every rank's log, and one line on the console."""
    for one in tuning.added:
        rank.log("info", "variable of the GPU model", name=one.name, value=one.value, why=one.why, source=one.source)
    if tuning.kept:
        rank.log("info", "variables of the GPU model that were set already", names=", ".join(tuning.kept))
    if tuning.added:
        text = f"{tuning.gpus[0]}: {len(tuning.added)} variables set that suit it, {len(tuning.kept)} were set already"
        rank.notice("gpu", text)
    elif tuning.gpus and not tuning.kept:
        rank.log("info", "no variables are set for these GPUs", gpus=", ".join(tuning.gpus))
