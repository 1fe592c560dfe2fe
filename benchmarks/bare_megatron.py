"""Megatron's `pretrain` without Primus around it: the yardstick of `overhead.py`.

Started by torchrun with the path of a plan. It makes the same call with the same values, model, step and data, and
the patches without which nothing trains on this platform; no parent process, no capture, no metrics.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any


class Silent:
    """A rank context that says nothing."""

    rank = local_rank = 0
    world_size = 1

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **values: None


def main() -> None:
    from primus_backend_megatron.rank import arguments
    from primus_backend_megatron.rank.data import Provider, mock_vocabulary
    from primus_backend_megatron.rank.step import forward_step
    from primus_core.codec import from_json
    from primus_core.patching import apply_patches
    from primus_core.plan import RunPlan

    started = time.time()
    plan = from_json(RunPlan, Path(sys.argv[1]).read_text())
    assert plan.translation is not None
    apply_patches(plan, Silent())  # type: ignore[arg-type]  # it has what is called here
    from megatron.core.enums import ModelType
    from megatron.training.argument_utils import gpt_config_from_args, pretrain_cfg_container_from_args
    from megatron.training.global_vars import set_global_variables
    from megatron.training.training import pretrain, set_startup_timestamps
    from torch import distributed

    set_startup_timestamps(program_start=started, main_entry=time.time())
    args = arguments.build_namespace(plan.translation.native)
    arguments.validate(args)
    provider = Provider(
        args=args,
        vocabulary=mock_vocabulary(args.vocab_size),
        sources=None,
        cache="",
        on_start=lambda: None,
        warn=lambda text: None,
    )
    set_global_variables(args, build_tokenizer=False)
    config = pretrain_cfg_container_from_args(args, gpt_config_from_args(args))
    pretrain(config, provider, ModelType.encoder_or_decoder, forward_step)
    distributed.destroy_process_group()  # else gloo's threads may abort a process that is ending


if __name__ == "__main__":
    main()
