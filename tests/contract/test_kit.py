"""A plugin that breaks a promise fails the test of that promise, and its healthy twin passes them all."""

from __future__ import annotations

import contextlib
import inspect
import re
from pathlib import Path

import pytest

from primus_core.errors import PrimusError
from primus_core.plan import Job
from primus_core.testing.plugin import PluginContract
from tests.contract.wrong_plugins import CASES, RANK_SIDE, SIDES, Case
from tests.distributions import Install

EXPERIMENT = """\
work_group: team
user_name: me
exp_name: exp
workspace: ./out
modules:
  fit: {{framework: {name}, config: train.yaml, model: train.yaml, overrides: {{train_iters: 10, lr: 0.1}}}}
"""


class Kit:
    """Installs a plugin for one test and runs tests of its contract."""

    def __init__(self, install: Install, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._install, self._folder, self._monkeypatch = install, folder, monkeypatch

    def plugin(self, case: str, source: str, base: type[PluginContract]) -> type[PluginContract]:
        """A contract for a plugin of this source; its name is of its own, as accounts are remembered by name."""
        name = re.sub(r"\W+", "_", f"kit_{base.__name__}_{case}").lower()
        main, _, rank = source.partition(RANK_SIDE)
        points = f"[{base.group}]\n{name} = {name}\n" + (f"[primus.ranks]\n{name} = {name}_rank\n" if rank else "")
        self._install(name, points, {f"{name}.py": main, f"{name}_rank.py": rank})
        experiment = self._folder / "exp.yaml"
        experiment.write_text(EXPERIMENT.format(name=name))
        (self._folder / "train.yaml").write_text("mock_data: true\n")
        return type("Kit", (base,), {"plugin": name, "experiment": experiment, "refused": _refused})

    def run(self, contract: type[PluginContract], test: str) -> None:
        """Call a test method as pytest would; ``name[3]`` has a parameter."""
        name, _, parameter = test.partition("[")
        method = getattr(contract(), f"test_{name}")
        wanted = inspect.signature(method).parameters
        given = {"monkeypatch": self._monkeypatch, "status": int(parameter.rstrip("]") or 0)}
        method(**{key: value for key, value in given.items() if key in wanted})


def _refused(self: object, job: Job) -> list[Job]:
    from attrs import evolve

    return [evolve(job, nodes=2)]


@pytest.fixture
def kit(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kit:
    return Kit(install, tmp_path, monkeypatch)


@pytest.mark.parametrize("contract", SIDES, ids=lambda contract: contract.__name__)
def test_a_healthy_plugin_passes(contract: type[PluginContract], kit: Kit) -> None:
    """The plugin that the wrong ones are made from keeps every promise."""
    healthy = kit.plugin("healthy", SIDES[contract], contract)
    for name in (name for name in dir(contract) if name.startswith("test_")):
        with contextlib.suppress(pytest.skip.Exception):  # it plans no patches
            kit.run(healthy, name.removeprefix("test_"))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[f"{case[0].__name__}: {case[1]}" for case in CASES])
def test_a_broken_promise_fails_its_test(case: Case, kit: Kit) -> None:
    """One change to the healthy plugin, and the test of what it breaks fails and says why."""
    contract, name, old, new, test, told = case
    assert old in SIDES[contract]
    wrong = kit.plugin(name, SIDES[contract].replace(old, new), contract)
    with pytest.raises((AssertionError, pytest.fail.Exception, PrimusError), match=re.escape(told)):
        kit.run(wrong, test)


def test_every_test_of_the_kit_can_fail() -> None:
    """There is a wrong plugin for each promise."""
    tested = {(contract, test.partition("[")[0]) for contract, _, _, _, test, _ in CASES}
    common = {name for name in dir(PluginContract) if name.startswith("test_")}
    for contract in SIDES:
        own = {name.removeprefix("test_") for name in dir(contract) if name.startswith("test_") and name not in common}
        assert own <= {test for of, test in tested if of is contract}
    assert {name.removeprefix("test_") for name in common} <= {test for _, test in tested}
