"""How many ranks a node has, and how many nodes a run that a scheduler starts."""

from __future__ import annotations

from collections.abc import Mapping

from primus_core.errors import ConfigError
from primus_core.experiment import Sections, Value
from primus_core.plan import Accelerator
from primus_core.planning.accelerators import ASSUMED_PER_NODE, Found
from primus_core.planning.sections import SLURM
from primus_core.planning.slurmflags import gpus_per_node_of, nodes_of

_JOB, _JOB_NODES = "SLURM_JOB_ID", "SLURM_JOB_NUM_NODES"


def scheduled_nodes(options: Mapping[str, Value], env: Mapping[str, str]) -> int:
    """The nodes that Slurm is asked for, or has given already; else one.

    Args:
        options: the section `slurm:`, typed.
        env: of ``primus``.

    Raises:
        ConfigError: they are a range, or no number; or hosts are named and not how many.
    """
    if (nodes := nodes_of(options)) is not None:
        return nodes
    given = env.get(_JOB_NODES, "") if env.get(_JOB) else ""
    if given.isascii() and given.isdecimal() and int(given) > 0:
        return int(given)
    if options.get("nodelist"):
        why = "a job may get more nodes than the list has, and a plan is made for one number of nodes"
        raise ConfigError("--nodelist without --nodes", why=why, remedy="add --nodes=N (-N)")
    return 1


def ranks_per_node(
    asked: int | None,
    launcher: str,
    typed: Mapping[str, Mapping[str, Value]],
    *,
    env: Mapping[str, str],
    kind: Accelerator,
    found: Found,
    origins: Sections,
) -> int:
    """``--nproc``, the GPUs that Slurm is asked for, GPUS_PER_NODE, the ``gpus_per_node`` of a section, the devices.

    Args:
        asked: ``--nproc``.
        typed: the sections of the launchers.
        env: the environment that the ranks will have.
        found: the accelerators where the ranks run, as far as they are known.
        origins: the sections with the place of each option, for errors.

    Raises:
        ConfigError: a number is none.
    """
    if asked is not None:
        return asked
    flags = typed.get(SLURM, {}) if launcher == SLURM else {}
    if (given := gpus_per_node_of(flags, scheduled_nodes(flags, env)) if flags else None) is not None:
        return given
    if text := env.get("GPUS_PER_NODE"):
        return gpus_per_node(text)
    section = "ssh" if launcher == "ssh" else "direct"
    option = typed.get(section, {}).get("gpus_per_node")
    if isinstance(option, int):
        return _at_least_one(option, section, origins)
    if kind == "cpu":
        return 1
    return found.count if found.kind == kind and found.count else ASSUMED_PER_NODE


def gpus_per_node(text: str) -> int:
    """The value of GPUS_PER_NODE.

    Raises:
        ConfigError: it is no number of ranks.
    """
    if text.isascii() and text.isdecimal() and int(text) > 0:
        return int(text)
    raise ConfigError(f"GPUS_PER_NODE is {text!r}", why="it is a number of ranks", remedy="give 1 or more, or unset it")


def _at_least_one(option: int, section: str, origins: Sections) -> int:
    if option >= 1:
        return option
    raise ConfigError(
        f"{section}.gpus_per_node is {option}",
        where=str(origins[section]["gpus_per_node"].origin),
        remedy="give a number of ranks, 1 or more",
    )
