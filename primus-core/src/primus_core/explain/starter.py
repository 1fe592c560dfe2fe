"""An experiment file to start from: what is usually set, each with what it means."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from attrs import frozen

from primus_core.experiment import Leaf, Value
from primus_core.explain.explanation import typed
from primus_core.explain.vocabulary import Vocabulary
from primus_core.yamlfile import written

_WIDTH = 100
_NEEDED: Mapping[str, Value] = {"mock_data": True, "train_iters": 100, "seq_length": 4096, "micro_batch_size": 1}
"""What must be set for a run to start: by the file where no preset does."""
_SHOWN = {
    "Data": ("mock_data", "train_data_path", "valid_data_path", "split", "tokenizer_type", "tokenizer_model"),
    "Length and batches": ("train_iters", "seq_length", "micro_batch_size", "global_batch_size"),
    "Optimizer": ("lr", "min_lr", "lr_decay_style", "lr_warmup_iters", "weight_decay", "clip_grad"),
    "How ranks share the model": (
        "tensor_model_parallel_size",
        "pipeline_model_parallel_size",
        "context_parallel_size",
        "expert_model_parallel_size",
        "sequence_parallel",
    ),
    "Precision and memory": ("bf16", "recompute_granularity"),
    "Checkpoints and evaluation": ("save_interval", "auto_continue_train", "load", "eval_interval", "eval_iters"),
    "Where it computes": ("accelerator",),
}
_EXAMPLES: Mapping[str, Value] = {
    "train_data_path": "corpus/*.jsonl",
    "valid_data_path": "held-out.jsonl",
    "split": "98,2,0",
    "load": "path/to/checkpoints",
}
"""For what has no value that could be shown."""


@frozen(kw_only=True)
class Start:
    """What a starter file is made for."""

    framework: str
    config: str
    model: str
    """File names of the presets."""
    presets: Mapping[str, Leaf]
    """What they set."""
    words: Vocabulary


def starter(start: Start) -> str:
    """A whole experiment file. What stands behind ``#`` is shown with the value that holds without it."""
    return "\n".join(_lines(start)) + "\n"


def _lines(start: Start) -> Iterator[str]:
    name = start.model.removesuffix(".yaml")
    yield f"# {name} with {start.words.library or start.framework}."
    yield "#"
    yield "#   primus config validate FILE     tells everything that is wrong with it"
    yield "#   primus config explain FILE KEY  tells where a value comes from and what becomes of it"
    yield "#   primus run FILE                 starts it"
    yield ""
    yield "work_group: team # names of one folder each, below the workspace"
    yield "user_name: ${USER:me}"
    yield f"exp_name: {written(name)}"
    yield "workspace: ./output # the only folder that a run writes to"
    yield ""
    yield "# direct:"
    yield "#   gpus_per_node: 8 # ranks on each node; without it, one for each accelerator found"
    yield ""
    yield "modules:"
    yield "  pre_trainer:"
    yield f"    framework: {start.framework}"
    yield f"    config: {written(start.config)} # how to train"
    yield f"    model: {written(start.model)} # what to train"
    yield ""
    yield "    # Remove a `# ` to change a parameter; behind it is the value that holds without."
    yield "    overrides:"
    for topic, names in _SHOWN.items():
        known = [key for key in names if start.words.parameter(key)]
        if known:
            yield from ("", f"      # --- {topic}") if topic != "Data" else (f"      # --- {topic}",)
        for key in known:
            yield from _parameter(key, start)


def _parameter(key: str, start: Start) -> Iterator[str]:
    parameter = start.words.parameter(key)
    leaf = start.presets.get(key)
    if parameter is None:
        return
    help_text = " ".join(parameter.help.split())
    yield from textwrap.wrap(help_text, _WIDTH, initial_indent="      # ", subsequent_indent="      # ")
    if key in _NEEDED and leaf is None:
        yield f"      {key}: {written(_needed(key, start))}"
    else:
        yield f"      # {key}: {_shown(typed(parameter, leaf), leaf, _EXAMPLES.get(key))}"


def _needed(key: str, start: Start) -> Value:
    """A sequence is no longer than the model is made for."""
    value, longest = _NEEDED[key], start.presets.get("max_position_embeddings")
    if key == "seq_length" and longest and isinstance(longest.value, int) and isinstance(value, int):
        return min(value, longest.value)
    return value


def _shown(value: Value, leaf: Leaf | None, example: Value) -> str:
    if leaf is not None:
        return written(leaf.value, leaf.text)
    return written(example if value is None and example is not None else value)
