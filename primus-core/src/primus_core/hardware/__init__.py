"""What accelerators can do, from one data file of published figures."""

from primus_core.hardware.accelerators import AcceleratorModel, accelerator_models, find_model, peak_flops

__all__ = ["AcceleratorModel", "accelerator_models", "find_model", "peak_flops"]
