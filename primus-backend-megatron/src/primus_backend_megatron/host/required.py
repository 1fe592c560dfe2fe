"""Parameters without which no training starts."""

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
