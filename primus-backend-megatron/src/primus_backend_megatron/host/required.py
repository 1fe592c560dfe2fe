"""Parameters without which no training starts, and sizes that must be positive."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_megatron.host.asked import Asked
from primus_backend_megatron.host.data import BYTE_LEVEL
from primus_core.errors import ConfigError
from primus_core.experiment import Experiment, Module

_ALWAYS = {
    "num_layers": "32",
    "hidden_size": "4096",
    "num_attention_heads": "32",
    "seq_length": "4096",
    "vocab_size": "128256",
    "micro_batch_size": "1",
    "train_iters": "1000",
    "lr": "3.0e-4",
}
"""Name and a value that shows how it is written."""

_INSTEAD = {"train_iters": ("train_samples",), "vocab_size": ("padded_vocab_size",)}
_DATA = ("train_data_path", "data_path")

POSITIVE = (
    "num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_attention_heads",
    "num_query_groups",
    "kv_channels",
    "seq_length",
    "max_position_embeddings",
    "vocab_size",
    "padded_vocab_size",
    "make_vocab_size_divisible_by",
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "context_parallel_size",
    "expert_model_parallel_size",
    "expert_tensor_parallel_size",
    "num_layers_per_virtual_pipeline_stage",
    "num_virtual_stages_per_pipeline_rank",
    "micro_batch_size",
    "global_batch_size",
    "train_iters",
    "train_samples",
    "moe_ffn_hidden_size",
    "moe_router_topk",
    "log_interval",
    "save_interval",
    "eval_interval",
)


def missing(asked: Asked, experiment: Experiment, module: Module) -> Iterator[ConfigError]:
    """One error that names everything that a run needs and nobody set."""
    needed = {name: text for name, text in _ALWAYS.items() if not _has(asked, name, *_INSTEAD.get(name, ()))}
    if asked.values.get("mock_data") is not True:
        if asked.values.get("tokenizer_type") == BYTE_LEVEL:
            needed.pop("vocab_size", None)
        needed |= {} if _has(asked, *_DATA) else {"train_data_path": "data/*.jsonl"}
        needed |= {} if _has(asked, "tokenizer_type") else {"tokenizer_type": "HuggingFaceTokenizer"}
    if asked.values.get("save") is not None and not _has(asked, "save_interval"):
        needed["save_interval"] = "1000"
    if needed:
        yield _missing(needed, experiment, module)


def _has(asked: Asked, *names: str) -> bool:
    """Whether one of them was set; a value of the wrong type has an error of its own."""
    return any(name in asked.leaves and asked.leaves[name].value is not None for name in names)


def _missing(needed: dict[str, str], experiment: Experiment, module: Module) -> ConfigError:
    names = ", ".join(f"`{name}`" for name in needed)
    lines = "\n".join(f"  {name}: {text}" for name, text in needed.items())
    mock = "\n`mock_data: true` trains on made-up tokens without data" if "train_data_path" in needed else ""
    return ConfigError(
        f"{names} {'is' if len(needed) == 1 else 'are'} not set",
        where=f"{experiment.file}, modules.{module.name}",
        why="Megatron cannot start without",
        remedy=f"set under `overrides`, for example:\n{lines}{mock}",
    )


def too_small(asked: Asked) -> Iterator[ConfigError]:
    """One error for each size that is zero or negative."""
    for name in POSITIVE:
        value = asked.values.get(name)
        if isinstance(value, int) and value < 1:
            yield ConfigError(
                f"`{asked.paths[name]}` is {value}",
                where=str(asked.leaves[name].origin),
                remedy="set it to 1 or more",
            )
