"""What a preflight plugin promises."""

from __future__ import annotations

from typing import ClassVar

from attrs import evolve

from primus_core import discovery
from primus_core.codec import to_json
from primus_core.discovery import Group
from primus_core.experiment import Experiment, Leaf, Module, Origin
from primus_core.outcome import Finding
from primus_core.plan import Job, Layout, RunPlan, Target, Task, Translation
from primus_core.testing.isolated import SECRET, Call, account_of
from primus_core.testing.judging import finding_problems
from primus_core.testing.plugin import PluginContract
from primus_core.testing.watching import Kind

_ORIGIN = Origin(file="contract.yaml", line=7)


class PreflightContract(PluginContract):
    """Subclass it and name the plugin; it is asked about plans of every kind."""

    group: ClassVar[Group] = "primus.preflight"
    forbidden: ClassVar[tuple[Kind, ...]] = ("write",)
    """A check may ask the host, its programs and its network."""

    def bare_plan(self) -> RunPlan:
        """The plan of a script: no experiment, no translation."""
        task = Task(kind="script", entry="x:y")
        job = Job(
            run_id="contract", name="contract", task=task, python="/usr/bin/python3", argv=("-m", "x", "plan.json")
        )
        target = Target(accelerator="cpu", library_version="1.0", ranks_per_node=1)
        return RunPlan(
            run_id="contract",
            run_dir="/nonexistent/runs/contract",
            target=target,
            task=task,
            job=job,
            launcher="single",
            secrets=(SECRET[0],),
        )

    def training_plan(self) -> RunPlan:
        """The plan of a training run on eight devices of two nodes."""
        module = Module(name="trainer", framework="none", framework_origin=_ORIGIN, config="c.yaml", model="m.yaml")
        experiment = Experiment(
            file="contract.yaml",
            work_group="team",
            user_name="me",
            exp_name="contract",
            workspace="/nonexistent",
            modules={module.name: module},
            env={SECRET[0]: Leaf(value=f"${{{SECRET[0]}}}", origin=_ORIGIN)},
        )
        return evolve(
            self.bare_plan(),
            target=Target(accelerator="cuda", library_version="1.0", ranks_per_node=4, nodes=2),
            framework=module.framework,
            module=module.name,
            experiment=experiment,
            translation=Translation(native={}, entry="x:y", layout=Layout()),
        )

    def call(self) -> Call:
        return Call(group=self.group, plugin=self.plugin, plan=self.training_plan())

    def findings(self) -> list[Finding]:
        """What the plugin finds about each plan, on the submitting host and on a node."""
        calls = (evolve(self.call(), plan=plan) for plan in (self.bare_plan(), self.training_plan()))
        return [finding for call in calls for finding in account_of(to_json(call)).findings]

    def test_it_answers_about_every_plan(self) -> None:
        """With or without an experiment, on any host: a sequence of findings, never an exception."""
        info = discovery.select(discovery.scan(), self.group, self.plugin)
        broken = [
            f"{finding.summary}: {finding.evidence}"
            for finding in self.findings()
            if str(info) in finding.summary  # core's own words about a plugin that fails
        ]
        assert not broken, "\n".join(broken)

    def test_its_findings_can_be_told(self) -> None:
        """Each has a name, one line that says what is wrong, and, for an error, a remedy."""
        problems = list(finding_problems(self.findings()))
        assert not problems, "\n".join(problems)

    def test_no_finding_holds_a_secret(self) -> None:
        """Findings are printed and written: the values of secret variables are not in them."""
        leaks = [finding.check for finding in self.findings() if SECRET[1] in to_json(finding)]
        assert not leaks, f"the value of {SECRET[0]} is in {', '.join(leaks)}"
