"""Real ranks for the tests of the TorchTitan back end: forked from one process that has imported everything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve

from primus_backend_torchtitan.patch_plan import plan_patches
from primus_core.codec import to_json
from primus_core.experiment import Value
from primus_core.plan import RunPlan
from tests.megatron.ranks import Outcome, free_port, outcome_of
from tests.torchtitan.experiments import MOCK, plan_of, target_of

ENTRY = "primus_backend_torchtitan.rank.train:run"


def with_all_patches(plan: RunPlan) -> RunPlan:
    """The plan with everything that may be planned on a CPU."""
    assert plan.translation
    return evolve(plan, translation=evolve(plan.translation, patches=plan_patches(target_of("cpu"))))


class Ranks:
    """The process that forks; a context manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.torchtitan.zygote"],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._say(to_json(with_all_patches(plan_of(MOCK)), indent=None))
        self.ready = self._hear()["ready"]

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(20)

    def run(
        self,
        folder: Path,
        params: Mapping[str, Value] | None = None,
        *,
        world: int = 2,
        entry: str = ENTRY,
        kill: str | None = None,
        prepared: Mapping[str, Any] | None = None,
        settings: dict[str, Value] | None = None,
    ) -> Outcome:
        """Train with parameters by any of their names, set beside those of the small Llama.

        Args:
            kill: rank 0 dies of SIGKILL when what it reported matches this pattern.
            prepared: results of preparations, by name.
        """
        wanted = {name: value for name, value in {**MOCK, **(params or {})}.items() if value != "unset"}
        plan = plan_of(wanted, ranks=world, workspace=str(folder / "work"), settings=settings)
        return self.start(plan, folder, entry=entry, kill=kill, prepared=prepared)

    def start(
        self,
        plan: RunPlan,
        folder: Path,
        *,
        entry: str = ENTRY,
        kill: str | None = None,
        prepared: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Run a plan in fresh ranks; arguments as for `run`."""
        folder.mkdir(parents=True, exist_ok=True)
        world = plan.target.world_size
        request = {
            "plan": to_json(plan, indent=None),
            "folder": str(folder),
            "world": world,
            "entry": entry,
            "port": free_port(),
            "kill": kill,
            "prepared": prepared,
        }
        self._say(json.dumps(request))
        return outcome_of(folder, self._hear()["codes"])

    def _say(self, text: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(text.strip() + "\n")
        self._process.stdin.flush()

    def _hear(self) -> Mapping[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the process that forks ranks has died"
        answer: Mapping[str, Any] = json.loads(line)
        return answer
