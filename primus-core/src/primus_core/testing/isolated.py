"""One hook, called in a fresh interpreter: what it returned, and what it did beside."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import frozen

from primus_core import discovery, hooks
from primus_core.codec import from_json
from primus_core.discovery import Group, Plugins
from primus_core.errors import raise_all
from primus_core.experiment import Experiment
from primus_core.outcome import Finding, Where
from primus_core.plan import Job, Process, RunPlan, Submission, Target, Translation
from primus_core.testing.starting import start
from primus_core.testing.watching import Deed, Kind

SECRET = ("PRIMUS_CONTRACT_TOKEN", "hunter2-is-no-password")
"""A secret variable that is set wherever a hook is called, and its value."""

_WORLDS = (
    {"PYTHONHASHSEED": "1", "HOME": "/nonexistent", "USER": "one", "LC_ALL": "C.UTF-8", "TZ": "UTC"},
    {"PYTHONHASHSEED": "2", "HOME": "/", "USER": "two", "LC_ALL": "C", "TZ": "Asia/Tokyo", "CUDA_VISIBLE_DEVICES": ""},
)
"""Two users whose plans must be equal."""


@frozen(kw_only=True)
class Call:
    """A hook's arguments; which ones are there says which hook."""

    group: Group
    plugin: str
    cwd: str = "/"
    experiment: Experiment | None = None
    module: str = ""
    target: Target | None = None
    plan: RunPlan | None = None
    job: Job | None = None

    def load(self) -> hooks.HostPlugins:
        """The plugin alone: no other one can help or disturb it."""
        return load_alone(self.group, self.plugin)

    def answer(self, hosts: hooks.HostPlugins) -> Account:
        if self.job is not None:
            return Account(submission=hosts.launch(self.job))
        if self.plan is not None:
            return Account(findings=tuple(found for where in Where for found in hosts.preflight(self.plan, where)))
        if self.experiment is None or self.target is None:
            raise ValueError("a call needs a job, a plan, or an experiment with its target")
        module = self.experiment.modules[self.module]
        return Account(translation=hosts.translate_config(self.experiment, module, self.target))


@frozen(kw_only=True)
class Account:
    """What came of a call."""

    translation: Translation | None = None
    submission: Submission | None = None
    findings: tuple[Finding, ...] = ()
    """Of the submitting host and of a node."""
    refusal: str = ""
    """The error that the hook raised for the user; empty: none."""
    deeds: tuple[Deed, ...] = ()
    """Imports since the plugin was loaded; of the rest what a second call did, when nothing is left to be cached."""
    seconds: float = 0.0
    """CPU time of loading the plugin and of the first call."""

    def of(self, *kinds: Kind) -> list[str]:
        return sorted({str(deed) for deed in self.deeds if deed.kind in kinds})


def load_alone(group: Group, name: str) -> hooks.HostPlugins:
    """One plugin, held to the contract by the same facade that a run uses.

    Raises:
        DependencyError: it breaks the contract. ConfigError: it is not installed.
    """
    info = discovery.select(discovery.scan(), group, name)
    hosts = hooks.load_host(
        Plugins((info,)),
        backend=name if group == "primus.backends" else None,
        launcher=name if group == "primus.launchers" else None,
        preflight=group == "primus.preflight",
    )
    raise_all([finding.as_error() for finding in hosts.unusable])
    return hosts


@cache
def account_of(call: str, world: int = 0) -> Account:
    """The account of a `Call` (as JSON) that was made as one of two users.

    Raises:
        AssertionError: the process did not end well; shows what it printed.
    """
    with TemporaryDirectory() as folder:
        question, answer = Path(folder, "call.json"), Path(folder, "account.json")
        question.write_text(call, encoding="utf-8")
        argv = (sys.executable, "-B", "-m", "primus_core.testing", str(question), str(answer))
        env = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path), **dict([SECRET]), **_WORLDS[world]}
        started = start([Process(argv=argv)], env, Path(folder, "log"))
        assert answer.exists(), f"the hook ended its process: {started.output}"
        return from_json(Account, answer.read_text(encoding="utf-8"))
