"""A process that has imported torch and patched TorchTitan once, and forks ranks from that state on request.

Started by `ranks.py`, with the requests and answers of `tests.megatron.zygote`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from typing import Any

from primus_core.codec import from_json
from primus_core.patching import apply_patches, verify
from primus_core.plan import RunPlan
from tests.megatron.zygote import Rank, serve

warnings.simplefilter("ignore")


def main() -> None:
    plan = from_json(RunPlan, sys.stdin.readline())
    import torch

    torch.set_num_threads(1)
    report = apply_patches(plan, Rank(0, 1, None))
    verify(plan, report)
    importlib.import_module("primus_backend_torchtitan.rank.config")
    verify(plan, report)
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _say(answer, {"ready": [result.id for result in report.results]})
    for line in sys.stdin:
        _say(answer, serve(json.loads(line), report))


def _say(answer: Any, what: dict[str, Any]) -> None:
    answer.write(json.dumps(what) + "\n")
    answer.flush()


if __name__ == "__main__":
    main()
    os._exit(0)  # taking down an interpreter that has imported torch lasts seconds
