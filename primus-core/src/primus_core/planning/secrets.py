"""Which environment variables are secret: their names may be written, their values never."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import evolve

from primus_core.experiment import Experiment, Leaf

_WORDS = frozenset({"TOKEN", "KEY", "SECRET", "PASSWORD"})


def is_secret(name: str) -> bool:
    """Whether the last ``_`` word of a variable's name says that its value is a secret."""
    return name.upper().rpartition("_")[2] in _WORDS


def secret_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(filter(is_secret, names)))


def split_secrets(env: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Variables that a plan may hold, and those that only travel by inheritance."""
    public = {name: value for name, value in env.items() if not is_secret(name)}
    return public, {name: value for name, value in env.items() if is_secret(name)}


def without_secrets(experiment: Experiment) -> Experiment:
    """The experiment with each secret of its ``env:`` replaced by a reference to the variable."""
    env = {name: _named(name, leaf) if is_secret(name) else leaf for name, leaf in experiment.env.items()}
    return evolve(experiment, env=env)


def _named(name: str, leaf: Leaf) -> Leaf:
    """Null stays: it sets nothing."""
    return evolve(leaf, value=None if leaf.value is None else f"${{{name}}}", overrode=())
