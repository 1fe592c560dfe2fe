"""What accelerators can do, and what suits them, from data files of published figures and advice."""

from primus_core.hardware.accelerators import AcceleratorModel, accelerator_models, find_model, peak_flops
from primus_core.hardware.memory import HostMemory, host_memory
from primus_core.hardware.variables import Variable, find_gpus, model_variables, variables_of

__all__ = [
    "AcceleratorModel",
    "HostMemory",
    "Variable",
    "accelerator_models",
    "find_gpus",
    "find_model",
    "host_memory",
    "model_variables",
    "peak_flops",
    "variables_of",
]
