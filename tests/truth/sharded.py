"""How many bytes of tensors live at a time while a model with fully sharded weights trains, on any device or none."""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor

from tests.truth.live import Live, Watch

_PLAIN = (torch.Tensor, torch.nn.Parameter, FakeTensor)


class ShardedLive(Live):
    """What a distributed tensor does is seen tensor by tensor, and so are FSDP's own changes of a storage's size.

    To wait for a collective allocates nothing, but for tensors without values torch says that it does.
    """

    def __init__(self, watch: Watch | None = None) -> None:
        super().__init__(watch)
        self._resizing: Any = None

    def __enter__(self) -> Any:
        original = torch.UntypedStorage.resize_

        def resize(storage: Any, size: int) -> Any:
            result = original(storage, size)
            self.see(storage)
            self.look("resize_")
            return result

        self._resizing = mock.patch.object(torch.UntypedStorage, "resize_", resize)
        self._resizing.start()
        return super().__enter__()

    def __exit__(self, *error: Any) -> Any:
        self._resizing.stop()
        return super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind not in _PLAIN for kind in types):
            return NotImplemented
        if func is torch.ops._c10d_functional.wait_tensor.default:
            return args[0]
        return super().__torch_dispatch__(func, types, args, kwargs)
