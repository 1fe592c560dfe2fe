"""First values of parameters that ranks share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def init_param(original: Callable[..., None]) -> Callable[..., None]:
    """Factory: every rank draws the whole tensor and keeps its part, so that no layout changes the first values.

    DTensor does so itself where the device has a generator that it knows how to share, which a CPU has not.
    """
    import torch
    from torch.distributed.tensor import DTensor, Replicate
    from torchtitan.models.common.param_init import skip_param_init

    @functools.wraps(original)
    def init(module: Any, name: str, parameter: Any) -> None:
        fill = (module._param_init or {}).get(name)
        if not isinstance(parameter, DTensor) or fill is None or fill is skip_param_init:
            original(module, name, parameter)
            return
        mesh = parameter.device_mesh
        whole = torch.empty(parameter.shape, dtype=parameter.dtype, device=parameter.to_local().device)
        with torch.no_grad():
            fill(whole)
            parameter.copy_(DTensor.from_local(whole, mesh, [Replicate()] * mesh.ndim, run_check=False))

    return init
