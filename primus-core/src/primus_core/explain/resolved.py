"""A resolved experiment whose file, loaded again, means the same."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from attrs import evolve, frozen

from primus_core.experiment import Experiment, Leaf, Module, Value
from primus_core.explain.explanation import typed
from primus_core.explain.vocabulary import Vocabulary
from primus_core.parameters import Parameter
from primus_core.plan import Translation
from primus_core.planning.launcheroptions import launcher_schema
from primus_core.yamlfile import written


@frozen(kw_only=True)
class Known:
    """What is known of a module beside what it sets."""

    words: Vocabulary
    overridden: Collection[str] = ()
    """Parameters that reach nothing, since a stronger layer sets them by another name."""

    @classmethod
    def of(cls, words: Vocabulary, translation: Translation | None) -> Known:
        rows = translation.unused if translation else ()
        return cls(words=words, overridden={row.path for row in rows if row.overridden_by})


def settled(experiment: Experiment, known: Mapping[str, Known]) -> Experiment:
    """The experiment as one layer can hold it.

    Values that came from the environment or the command line are typed: there ``off`` may be a bool and ``1`` too,
    which in a file are text and a number. What is overridden under another name is left out: beside the other name,
    it would be a contradiction.

    Args:
        known: by name of a module.
    """
    options = {
        section: {
            key: _settled(leaf, launcher_schema().parameters.get(f"{section}.{key}")) for key, leaf in leaves.items()
        }
        for section, leaves in experiment.launchers.items()
    }
    modules = {name: _module(module, known[name]) for name, module in experiment.modules.items()}
    return evolve(experiment, launchers=options, modules=modules)


def _module(module: Module, known: Known) -> Module:
    kept = {key: leaf for key, leaf in module.params.items() if key not in known.overridden}
    return evolve(module, params={key: _settled(leaf, known.words.parameter(key)) for key, leaf in kept.items()})


def _settled(leaf: Leaf, parameter: Parameter | None) -> Leaf:
    if parameter is None or leaf.value is None or not (leaf.variables or leaf.origin.layer == "command line"):
        return leaf
    value = typed(parameter, leaf)
    return evolve(leaf, value=value, text=None) if repr(value) != repr(leaf.value) else leaf


def as_json(experiment: Experiment) -> dict[str, Value]:
    """The layout of an experiment file, with the parameters by their dotted names."""
    names: dict[str, Value] = {
        key: getattr(experiment, key) for key in ("work_group", "user_name", "exp_name", "workspace")
    }
    sections = {"platform": experiment.platform, "env": experiment.env, **experiment.launchers}
    return {
        **names,
        **{section: _values(leaves) for section, leaves in sections.items() if leaves},
        "modules": {name: _module_json(module) for name, module in experiment.modules.items()},
    }


def _module_json(module: Module) -> Value:
    return {
        "framework": module.framework,
        "config": module.config,
        "model": module.model,
        "overrides": _values(module.params),
    }


def _values(leaves: Mapping[str, Leaf]) -> dict[str, Value]:
    return {key: _jsonable(leaf.value) for key, leaf in leaves.items()}


def _jsonable(value: Value) -> Value:
    """Infinity and NaN, which JSON does not have, as the texts that YAML writes for them."""
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    if isinstance(value, dict):
        return {key: _jsonable(item) for key, item in value.items()}
    return written(value) if isinstance(value, float) and not math.isfinite(value) else value
