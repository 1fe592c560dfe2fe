"""Which environment variables are secret: their names may be written, their values never."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import evolve

from primus_core.experiment import Experiment, Leaf, Sections, Value

_SETTING = ("env", "options.env")
"""Options of launchers that hold ``NAME=VALUE``."""
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
    """The experiment with each secret of ``env:`` as a reference to the variable, and launchers as `named_secrets`."""
    env = {name: _named(name, leaf) if is_secret(name) else leaf for name, leaf in experiment.env.items()}
    return evolve(experiment, env=env, launchers=named_secrets(experiment.launchers))


def named_secrets(sections: Sections) -> Sections:
    """Options of launchers with the name alone of each secret that ``container.env`` sets."""
    return {
        name: {key: _names(leaf) if key in _SETTING else leaf for key, leaf in leaves.items()}
        for name, leaves in sections.items()
    }


def _names(leaf: Leaf) -> Leaf:
    values = leaf.value if isinstance(leaf.value, list) else [leaf.value]
    if not any(isinstance(one, str) and is_secret(one.partition("=")[0]) for one in values):
        return evolve(leaf, overrode=tuple(map(_names, leaf.overrode))) if leaf.overrode else leaf
    names: list[Value] = [_name(one) for one in values]
    return evolve(leaf, value=names, text=None, overrode=tuple(map(_names, leaf.overrode)))


def _name(pair: Value) -> Value:
    name = pair.partition("=")[0] if isinstance(pair, str) else ""
    return name if is_secret(name) else pair


def _named(name: str, leaf: Leaf) -> Leaf:
    """Null stays: it sets nothing."""
    return evolve(leaf, value=None if leaf.value is None else f"${{{name}}}", overrode=())
