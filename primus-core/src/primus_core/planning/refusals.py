"""What a plan must not hold, and where it must not be written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from primus_core.errors import ConfigError, raise_all
from primus_core.experiment import Experiment, Leaf
from primus_core.planning.secrets import is_secret
from primus_core.rundir import RunDir

_SHORTEST = 8
"""Characters; a shorter value is part of too many innocent paths and words."""


def refuse_secrets(experiment: Experiment, env: Mapping[str, str]) -> None:
    """Stop before the value of a secret variable is written as part of a parameter or of another variable.

    Raises:
        ConfigError: names the key and the variable, never the value.
    """
    secrets = {name: value for name, value in env.items() if is_secret(name) and len(value) >= _SHORTEST}
    raise_all(
        [
            ConfigError(
                f"`{key}` holds the value of {name}",
                where=str(leaf.origin),
                why="parameters are written to plan.json and the logs, where secrets must not be",
                remedy=f"let the code that needs it read the variable {name}: the ranks inherit it",
            )
            for key, leaf in _written(experiment)
            for name, value in secrets.items()
            if value in str(leaf.value)
        ]
    )


def refuse_used(rundir: RunDir, own: Path | None = None) -> None:
    """Stop before a second run mixes its files with those of the first.

    Args:
        own: where other nodes may have begun to write already, the file that this one alone writes.

    Raises:
        ConfigError: the run directory, or that file, exists.
    """
    if (own or rundir.path).exists():
        raise ConfigError(
            f"the run {rundir.path.name!r} exists",
            where=str(rundir.path),
            remedy="leave --run-id out for a new one, or choose another",
        )


def _written(experiment: Experiment) -> Iterator[tuple[str, Leaf]]:
    yield from experiment.words.items()
    for module in experiment.modules.values():
        yield from module.params.items()
    for section, options in experiment.launchers.items():
        yield from ((f"{section}.{key}", leaf) for key, leaf in options.items())
    yield from ((f"env.{name}", leaf) for name, leaf in experiment.env.items() if not is_secret(name))
