"""Sections of TorchTitan's configuration that are one of several classes, each chosen by the key ``kind``.

No torch here: the classes are named by string, and imported in the ranks only.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

_AC = "torchtitan.distributed.activation_checkpoint"
_RANK = "primus_backend_torchtitan.rank"


@frozen(kw_only=True)
class Section:
    """One such section."""

    default: str
    """The kind where nobody chooses one."""
    kinds: Mapping[str, str | None]
    """``module:qualified.name`` of the configuration class of each kind; None: the section is switched off."""


_DATALOADERS: Mapping[str, str | None] = {
    "primus": f"{_RANK}.tokens:TokenLoader.Config",
    "huggingface_text": "torchtitan.hf_datasets.text_datasets:HuggingFaceTextDataLoader.Config",
}

SECTIONS: Mapping[str, Section] = {
    "activation_checkpoint": Section(
        default="none",
        kinds={
            "none": None,
            "selective": f"{_AC}:SelectiveAC.Config",
            "full": f"{_AC}:FullAC.Config",
            "memory_budget": f"{_AC}:MemoryBudgetAC.Config",
        },
    ),
    "checkpoint": Section(
        default="dcp",
        kinds={
            "dcp": f"{_RANK}.saving:Checkpoints.Config",
        },
    ),
    "dataloader": Section(default="primus", kinds=_DATALOADERS),
    "loss": Section(
        default="chunked",
        kinds={
            "chunked": "torchtitan.components.loss:ChunkedLossWrapper.Config",
            "cross_entropy": "torchtitan.components.loss:CrossEntropyLoss.Config",
        },
    ),
    "lr_scheduler": Section(
        default="megatron",
        kinds={
            "megatron": f"{_RANK}.schedule:MegatronSchedule.Config",
            "native": "torchtitan.components.optimizer:LRSchedulersContainer.Config",
        },
    ),
    "metrics": Section(default="primus", kinds={"primus": f"{_RANK}.metrics:RunMetrics.Config"}),
    "tokenizer": Section(
        default="none",
        kinds={
            "none": f"{_RANK}.tokens:NoTokenizer.Config",
            "huggingface": "torchtitan.components.tokenizer:HuggingFaceTokenizer.Config",
        },
    ),
    "validator": Section(
        default="primus",
        kinds={
            "primus": f"{_RANK}.evaluation:Evaluation.Config",
            "native": "torchtitan.components.validate:Validator.Config",
        },
    ),
    "validator.dataloader": Section(default="primus", kinds=_DATALOADERS),
}

CONVERTERS: Mapping[str, str] = {
    "float8_linear": "torchtitan.components.quantization:Float8LinearConverter.Config",
    "float8_grouped_experts": "torchtitan.components.quantization:Float8GroupedExpertsConverter.Config",
    "mxfp8_linear": "torchtitan.components.quantization:MXFP8LinearConverter.Config",
    "mxfp8_grouped_experts": "torchtitan.components.quantization:MXFP8GroupedExpertsConverter.Config",
    "nvfp4_linear": "torchtitan.components.quantization:NVFP4LinearConverter.Config",
}
"""What may change the model before it is built, by the ``kind`` of an entry of ``model.converters``."""

FORMER_CONVERTERS: Mapping[str, str] = {
    "quantize.linear.float8": "float8_linear",
    "quantize.linear.mx": "mxfp8_linear",
    "quantize.grouped_mm.float8": "float8_grouped_experts",
    "quantize.grouped_mm.mx": "mxfp8_grouped_experts",
}
"""The kind of each converter by its name in TorchTitan 0.2, which is also the section of its options."""
