"""Host side of the TorchTitan back end: it says that this version does not train yet."""

from __future__ import annotations

from primus_backend_torchtitan import __version__
from primus_core.contract import host
from primus_core.errors import DependencyError
from primus_core.experiment import Experiment, Module
from primus_core.plan import Target, Translation

CONTRACT = 1
LIBRARY = "torchtitan"
LIBRARY_VERSIONS = ("0.3.0",)


@host
def translate_config(experiment: Experiment, module: Module, target: Target) -> Translation:
    """Refuse: nothing would be trained.

    Raises:
        DependencyError: always.
    """
    raise DependencyError(
        f"primus-backend-torchtitan {__version__} does not train yet",
        where=str(module.framework_origin),
        why="It reserves the framework's name; the translation to TorchTitan comes with a later version.",
        remedy="`pip install primus-backend-megatron` and `framework: megatron` train the Llama presets today; "
        "`pip install --upgrade primus-backend-torchtitan` brings TorchTitan once it is released.",
    )
