"""Starts a task over ssh: ``python -m tests.launchers.ssh_run FOLDER HOSTS MODULE:TASK [name=value ...]``.

What a command would be, with a plan that is made here; it runs on the host of the testbed that submits. A name with a
dot, ``settings.NAME``, is one of core's parameters, the others are options of the launcher.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from primus_core import hooks, report
from primus_core.codec import to_json
from primus_core.discovery import scan
from primus_core.experiment import Value
from primus_core.files import write_atomic
from primus_core.submit import Console, submit
from tests.launchers.runs import plan_of


def main() -> int:
    folder, hosts, task, *words = sys.argv[1:]
    names = hosts.split(",")
    options: dict[str, Value] = {"hosts": list(names)}
    settings: dict[str, Value] = {}
    for name, _, value in (word.partition("=") for word in words):
        section, _, parameter = name.rpartition(".")
        if section:
            settings[parameter] = int(value)
        else:
            options[name] = value
    plan = plan_of(
        Path(folder),
        task,
        nodes=len(names),
        launcher="ssh",
        options=options,
        settings=settings,
        secrets=("SHOWN_TOKEN",),
    )
    write_atomic(Path(plan.run_dir, "plan.json"), to_json(plan))
    launcher = hooks.load_host(scan(), backend=None, launcher="ssh", preflight=False)
    ended = submit(launcher.launch(plan.job), plan, env=os.environ, console=Console(sys.stdout, live=False))
    print(report.screen(ended, plan), flush=True)
    return ended.exit_code


if __name__ == "__main__":
    sys.exit(main())
