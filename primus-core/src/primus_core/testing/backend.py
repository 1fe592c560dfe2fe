"""What a back end promises."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import ClassVar

import pytest
from attrs import evolve

from primus_core import discovery, hooks
from primus_core.codec import from_json, to_json
from primus_core.discovery import Group
from primus_core.errors import ConfigError, ErrorGroup
from primus_core.experiment import Experiment, Leaf, Module, Origin, Value
from primus_core.plan import Accelerator, RunPlan, Target, Translation
from primus_core.planning.job import Request
from primus_core.planning.legality import check_layout
from primus_core.planning.make import make_plan, only_module
from primus_core.planning.settings import core_schema, core_settings
from primus_core.resolve import resolve
from primus_core.testing.isolated import SECRET, Call, account_of, load_alone
from primus_core.testing.judging import (
    entry_problem,
    finding_problems,
    is_reference,
    patch_problems,
    value_problems,
    variable_problems,
)
from primus_core.testing.plugin import PluginContract
from primus_core.testing.shapes import shape_problems

_WRONG = Origin(file="contract.yaml", line=4321, layer="overrides")


class BackendContract(PluginContract):
    """Subclass it, name the back end and a small experiment that it trains."""

    group: ClassVar[Group] = "primus.backends"
    experiment: ClassVar[Path]
    """Absolute; an experiment file that trains. ``overrides`` of its module set at least one number."""
    accelerator: ClassVar[Accelerator] = "cpu"
    ranks: ClassVar[int] = 1
    """How many ranks the experiment is planned for, on one node."""

    def resolved(self) -> Experiment:
        """The experiment, with a secret in its environment."""
        plugins = discovery.scan()
        experiment = resolve(
            self.experiment.name,
            env={},
            preset_dirs=lambda framework: discovery.preset_dirs(plugins, framework),
            cwd=str(self.experiment.parent),
        )
        name, value = SECRET
        return evolve(experiment, env={**experiment.env, name: Leaf(value=value, origin=_WRONG)})

    def call(self) -> Call:
        experiment = self.resolved()
        module = only_module(experiment)
        library = load_alone(self.group, self.plugin).library_version(core_settings(module)["backend_version"])
        return Call(
            group=self.group,
            plugin=self.plugin,
            cwd=str(self.experiment.parent),
            experiment=experiment,
            module=module.name,
            target=Target(accelerator=self.accelerator, library_version=library, ranks_per_node=self.ranks),
        )

    def translation(self) -> Translation:
        """The experiment in the library's words."""
        translation = self.account().translation
        assert translation is not None
        return translation

    def plan(self) -> RunPlan:
        """The plan that a run of the experiment would have, without the preparation of data."""
        call, experiment = self.call(), self.resolved()
        assert call.target is not None
        module = only_module(experiment)
        return make_plan(
            experiment,
            module,
            target=call.target,
            settings=core_settings(module),
            translation=self.translation(),
            prepare=(),
            request=Request(launcher="single", run_id="contract", cwd=call.cwd),
            distributions={},
        )

    def refusal_of(self, key: str, value: Value, monkeypatch: pytest.MonkeyPatch) -> list[ConfigError]:
        """The configuration errors of the experiment with one more, wrong, line."""
        call, experiment = self.call(), self.resolved()
        assert call.target is not None
        module = only_module(experiment)
        wrong = evolve(module, params={**module.params, key: Leaf(value=value, origin=_WRONG)})
        monkeypatch.chdir(call.cwd)
        with pytest.raises((ConfigError, ErrorGroup)) as caught:
            load_alone(self.group, self.plugin).translate_config(
                evolve(experiment, modules={module.name: wrong}), wrong, call.target
            )
        return list(_configuration(caught.value))

    def test_every_parameter_has_one_fate(self) -> None:
        """Each parameter that was set is mapped, adjusted or unused, and its row tells the truth."""
        module = only_module(self.resolved())
        hooks.check_translation(module, self.translation(), core_schema().parameters)

    def test_the_same_experiment_gives_the_same_translation(self) -> None:
        """For two users with other variables, and in whatever order Python hashes: the plan is the same."""
        first, second = (self.account(world).translation for world in (0, 1))
        assert to_json(first) == to_json(second), "the translation differs from one process to another"

    def test_a_translation_survives_the_plan_file(self) -> None:
        """Its values are JSON's own, and reading back what was written gives the same translation."""
        call = self.call()
        translation = call.answer(load_alone(self.group, self.plugin)).translation
        assert translation is not None
        rows = [(f"mapping {row.path}", row.value) for row in translation.mapping]
        rows += [(f"adjusted {row.path}", value) for row in translation.adjusted for value in (row.asked, row.used)]
        values = [("native", dict(translation.native)), *rows]
        problems = [problem for name, value in values for problem in value_problems(value, name)]
        assert not problems, "\n".join(problems)
        assert from_json(Translation, to_json(translation)) == translation, "the plan file changes the translation"

    def test_no_secret_is_in_a_translation(self) -> None:
        """A translation is written to files: the values of secret variables are not in it."""
        assert SECRET[1] not in to_json(self.translation()), f"the value of {SECRET[0]} is in the translation"

    def test_a_misspelt_key_is_refused_with_its_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The error names file and line, and the parameter that was probably meant."""
        key = max(_numbers(only_module(self.resolved())), key=len)
        middle = len(key) // 2
        errors = self.refusal_of(key[:middle] + key[middle + 1 :], 1, monkeypatch)
        told = "\n".join(f"{error}\n{error.why}\n{error.remedy}" for error in errors)
        assert str(_WRONG) in told, f"no error names {_WRONG}: {told}"
        assert key in told, f"no error names the nearest parameter, {key}: {told}"

    def test_an_unknown_key_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A key that resembles none is an error too, never left out in silence."""
        errors = self.refusal_of("zzz_of_no_library", 1, monkeypatch)
        assert any(str(_WRONG) in error.where for error in errors), f"no error names {_WRONG}"

    def test_a_value_of_the_wrong_type_is_refused_with_its_place(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Text where a number belongs: the error names the key, file and line."""
        for key in _numbers(only_module(self.resolved())):
            errors = self.refusal_of(key, "no number", monkeypatch)
            assert any(str(_WRONG) in error.where and key in error.what for error in errors), f"{key}: {errors}"

    def test_the_entry_is_there(self) -> None:
        """The entry is ``module:function``, and the module's source has the function."""
        problem = entry_problem(self.translation().entry)
        assert not problem, problem

    def test_the_patches_can_be_planned_together(self) -> None:
        """Ids and targets are unique, what ``after`` names is known, each patch has a reason and sound ranges."""
        problems = list(patch_problems(self.translation().patches))
        assert not problems, "\n".join(problems)

    def test_the_replacements_are_there(self) -> None:
        """Each patch's factory can be imported where the library is installed, and something applies the patches."""
        patches = self.translation().patches
        if not patches:
            pytest.skip("no patches are planned")
        ranks = discovery.select(discovery.scan(), "primus.ranks", self.plugin)
        hook = getattr(discovery.load(ranks), "patch_backend", None)
        assert callable(hook), f"the {ranks} has no patch_backend"
        problems = [problem for patch in patches if (problem := _unusable(patch.replacement))]
        assert not problems, "\n".join(problems)

    def test_the_rank_side_keeps_the_specification(self) -> None:
        """If the back end has a rank side, it loads by the same name."""
        hooks.load_rank(discovery.scan(), self.plugin)

    def test_the_environment_can_be_set(self) -> None:
        """The variables that the library needs are texts with names."""
        problems = list(variable_problems(self.translation().environment))
        assert not problems, "\n".join(problems)

    def test_the_shape_can_be_projected(self) -> None:
        """If the back end tells the shape of its models, that of the experiment holds together."""
        hooked = getattr(
            discovery.load(discovery.select(discovery.scan(), self.group, self.plugin)), "model_shape", None
        )
        if hooked is None:
            pytest.skip("it tells no shape")
        shape = load_alone(self.group, self.plugin).model_shape(self.plan())
        assert shape is not None, "it has the hook, and tells no shape of its own experiment"
        problems = list(shape_problems(shape))
        assert not problems, "\n".join(problems)

    def test_the_experiment_may_start(self) -> None:
        """No check has an error for it, core's own included, and findings are fit to be told."""
        plan = self.plan()
        call = Call(group=self.group, plugin=self.plugin, cwd=str(self.experiment.parent), plan=plan)
        found = account_of(to_json(call)).findings
        problems = [*finding_problems(found), *(f.summary for f in check_layout(plan))]
        problems += [f"{finding.summary}: {finding.evidence}" for finding in found if finding.severity == "error"]
        assert not problems, "\n".join(problems)


def _configuration(error: BaseException) -> Iterator[ConfigError]:
    if isinstance(error, ErrorGroup):
        for one in error.errors:
            yield from _configuration(one)
    elif isinstance(error, ConfigError):
        yield error


def _numbers(module: Module) -> list[str]:
    """The back end's parameters that the experiment itself sets to a number."""
    found = [
        key
        for key, leaf in module.params.items()
        if leaf.origin.layer == "overrides" and type(leaf.value) in (int, float) and key not in core_schema().parameters
    ]
    assert found, "the experiment of the contract has to set a number under `overrides`"
    return found


def _unusable(replacement: str) -> str:
    """Why a factory cannot be used; empty where it can, or where its library is not installed."""
    module, _, path = replacement.partition(":")
    if not is_reference(replacement):
        return f"{replacement!r} is not `module:function`"
    try:
        factory = reduce(getattr, path.split("."), importlib.import_module(module))
    except ModuleNotFoundError as error:
        own = (error.name or "").partition(".")[0] == module.partition(".")[0]
        return f"{replacement}: {error}" if own else ""
    except AttributeError as error:
        return f"{replacement}: {error}"
    return "" if callable(factory) else f"{replacement} cannot be called"
