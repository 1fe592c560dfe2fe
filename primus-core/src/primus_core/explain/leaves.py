"""Every value of an experiment by its path in the file, and the short ways to name one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from primus_core.experiment import Experiment, Leaf, Module, Value

_SECTIONS = ("env", "platform", "direct", "ssh", "container", "slurm")


@frozen(kw_only=True)
class Place:
    """Where a value stands, or would stand, in an experiment file."""

    path: str
    """``modules.pre_trainer.overrides.lr``, ``env.NCCL_DEBUG``."""
    key: str
    """``lr`` for a parameter of the module; else the path."""
    leaf: Leaf | None
    """None where nobody set it."""
    is_parameter: bool
    """Whether it is one of the module's parameters."""


def leaves(experiment: Experiment) -> dict[str, Leaf]:
    """Every value that was set, by its path."""
    return dict(_all(experiment))


def place_of(experiment: Experiment, module: Module, name: str) -> Place:
    """The place that a name means: a path in the file, or a parameter of the module."""
    known = leaves(experiment)
    key = _without_prefix(module, name)
    for path in (name, f"modules.{module.name}.{key}"):
        if path in known and ".overrides." not in path:
            return Place(path=path, key=path, leaf=known[path], is_parameter=False)
    if name.partition(".")[0] in _SECTIONS:
        return Place(path=name, key=name, leaf=None, is_parameter=False)
    path = f"modules.{module.name}.overrides.{key}"
    return Place(path=path, key=key, leaf=module.params.get(key), is_parameter=True)


def _without_prefix(module: Module, name: str) -> str:
    for prefix in (f"modules.{module.name}.overrides.", f"modules.{module.name}.", "overrides."):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _all(experiment: Experiment) -> Iterator[tuple[str, Leaf]]:
    yield from experiment.words.items()
    sections: Mapping[str, Mapping[str, Leaf]] = {
        "env": experiment.env,
        "platform": experiment.platform,
        **experiment.launchers,
    }
    for section, entries in sections.items():
        yield from ((f"{section}.{key}", leaf) for key, leaf in entries.items())
    for name, module in experiment.modules.items():
        yield from ((f"modules.{name}.overrides.{key}", leaf) for key, leaf in module.params.items())


def origins(experiment: Experiment) -> dict[str, Value]:
    """The place and layer of every value, by its path."""
    return {path: {"at": str(leaf.origin), "layer": leaf.origin.layer} for path, leaf in leaves(experiment).items()}
