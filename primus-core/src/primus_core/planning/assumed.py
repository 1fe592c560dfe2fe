"""The hardware that an experiment is meant for, where the command that judges it is not where it runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from primus_core.experiment import Experiment, Value
from primus_core.plan import Accelerator
from primus_core.planning.accelerators import ASSUMED_PER_NODE, Found
from primus_core.planning.sections import CONTAINER, SLURM

if TYPE_CHECKING:
    from primus_core.hardware import AcceleratorModel

_WORDS: tuple[tuple[Accelerator, re.Pattern[str]], ...] = (
    ("rocm", re.compile(r"rocm|(?<![a-z])(?:amd|mi\d{3}x?)(?![a-z])", re.IGNORECASE)),
    ("cuda", re.compile(r"nvidia|nvcr|cuda|(?<![a-z])g?[abh]\d{2,3}(?![0-9])", re.IGNORECASE)),
    ("cpu", re.compile(r"(?<![a-z])cpu(?![a-z])", re.IGNORECASE)),
)
"""What the name of an image or of a kind of GPU says of its maker, or that there is none: ``pytorch:2.13-cpu``."""
_TELLING = ("gpus-per-node", "gres", "gpus", "gpus-per-task", "constraint")
"""Options of Slurm that may name a kind of GPU."""


def meant(found: Found) -> Found:
    """The accelerators of this host; on a host without any, those of a GPU node."""
    return found if found.count else Found(kind="cuda", count=ASSUMED_PER_NODE)


def meant_by(launcher: str, inside: str, sections: Mapping[str, Mapping[str, Value]], here: Found) -> Found:
    """What ``accelerator: auto`` means where ranks run in a container or on the nodes of a scheduler.

    The image and the options tell the kind, never the devices of a login node. A container of this host has this host's
    devices, as many as there are of that kind; 0 where their number is not known from here.

    Args:
        inside: what starts the ranks on each node of a scheduler.
        sections: the typed options of the launchers.
        here: the accelerators of this host.
    """
    in_container = CONTAINER in (launcher, inside)
    image = str(sections.get(CONTAINER, {}).get("image") or "") if in_container else ""
    flags = sections.get(SLURM, {}) if launcher == SLURM else {}
    kind = _kind(image) or _kind(" ".join(str(flags[name]) for name in _TELLING if name in flags)) or "cuda"
    return Found(kind=kind, count=here.count if launcher == CONTAINER and here.kind == kind else 0)


def named_model(launcher: str, sections: Mapping[str, Mapping[str, Value]]) -> AcceleratorModel | None:
    """The model of GPU that options of Slurm name, such as ``--gres=gpu:mi300x:8``; None for none, or several.

    Args:
        sections: the typed options of the launchers.
    """
    from primus_core.hardware import accelerator_models  # here: runs that start ask for it, and no dry run

    flags = sections.get(SLURM, {}) if launcher == SLURM else {}
    words = re.split(r"[:,|&()\s]", " ".join(str(flags[name]) for name in _TELLING if name in flags))
    found = {model.model: model for model in accelerator_models() if any(_is_called(model, word) for word in words)}
    return next(iter(found.values())) if len(found) == 1 else None


def _is_called(model: AcceleratorModel, word: str) -> bool:
    """``h100``, or as Slurm finds it out itself: ``nvidia_h100_80gb_hbm3``; other kinds of H100 have other memory."""
    name = word.upper().replace("_", " ")
    return name == model.model or any(name.endswith(f" {one.upper()}") for one in model.names)


def names_cpu(experiment: Experiment) -> bool:
    """Whether the experiment is for CPUs: such a run has the ranks that it asks for, on this host."""
    return any(
        module.params["accelerator"].value == "cpu"
        for module in experiment.modules.values()
        if "accelerator" in module.params
    )


def _kind(text: str) -> Accelerator | None:
    return next((kind for kind, words in _WORDS if words.search(text)), None)
