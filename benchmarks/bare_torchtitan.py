"""TorchTitan's `Trainer` without Primus around it: the yardstick of `overhead.py`.

Started by torchrun with the path of a plan. It makes the same call with the same values, model and data, and the
patches without which nothing trains on this platform; no parent process, no capture, and TorchTitan's own metrics.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any


class Silent:
    """A rank context that says nothing."""

    rank = local_rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **values: None


def main() -> None:
    from primus_backend_torchtitan.host.schema import schema_for
    from primus_backend_torchtitan.rank.session import CURRENT, Session
    from primus_core.codec import from_json
    from primus_core.patching import apply_patches
    from primus_core.plan import RunPlan

    plan = from_json(RunPlan, Path(sys.argv[1]).read_text())
    assert plan.translation is not None
    os.environ.update(plan.translation.environment)
    apply_patches(plan, Silent())  # type: ignore[arg-type]  # it has what is called here
    from torch import distributed
    from torchtitan.components.metrics import MetricsProcessor
    from torchtitan.observability import structured_logger
    from torchtitan.tools.logging import init_logger

    from primus_backend_torchtitan.rank.config import build_config
    from primus_backend_torchtitan.rank.samples import make_samples

    init_logger()
    session = Session(plan=plan, rank=Silent(), native=plan.translation.native)  # type: ignore[arg-type]  # likewise
    version = plan.target.library_version
    session.samples = make_samples(session, schema_for(version).defaults)
    CURRENT.set(session)  # the data loader asks it for the samples
    config = build_config(session.native, version)
    own = {field.name: getattr(config.metrics, field.name) for field in dataclasses.fields(MetricsProcessor.Config)}
    config = dataclasses.replace(config, metrics=MetricsProcessor.Config(**own))
    structured_logger.init_structured_logger(source="training", output_dir=config.dump_folder)
    trainer = config.build()
    trainer.train()
    trainer.close()
    distributed.destroy_process_group()  # else gloo's threads may abort a process that is ending


if __name__ == "__main__":
    main()
