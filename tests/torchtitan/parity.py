"""One small Llama as a Hugging Face folder, documents, and what trains the one on the other, for `test_parity.py`."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import evolve

from primus_core.contract import RankContext
from primus_core.experiment import Value
from primus_core.plan import RunPlan
from tests.megatron.tokens import write_tokens
from tests.torchtitan.experiments import MOCK

HIDDEN, INNER, HEAD, HEADS, GROUPS, LAYERS = 64, 128, 16, 4, 2, 2
WORDS, ROWS, END = 250, 256, 249
"""Tokens of the vocabulary, rows of the embedding, and the token that ends a document."""
SEED, STEPS, BATCH, LENGTH, SPLIT = 7, 20, 8, 32, "80,10,10"
LR, MIN_LR, WARMUP, DECAY, BETAS, EPSILON, CLIP = 3e-3, 3e-4, 3, 0.1, (0.9, 0.95), 1e-8, 1.0
FILE = "model-00001-of-00001.safetensors"

TRAINING: dict[str, Value] = {
    **MOCK,
    "mock_data": False,
    "train_data_path": ["documents"],
    "tokenizer_type": "HuggingFaceTokenizer",
    "tokenizer_model": "tokenizer.json",
    "split": SPLIT,
    "reset_attention_mask": True,
    "reset_position_ids": True,
    "eod_mask_loss": True,
    "eval_interval": 10,
    "eval_iters": 1,
    "make_vocab_size_divisible_by": 128,
    "rotary_base": 10000,
    "layernorm_epsilon": 1e-5,
    "micro_batch_size": 4,
    "train_iters": STEPS,
    "optimizer": "adam",
    "lr": LR,
    "min_lr": MIN_LR,
    "lr_decay_iters": STEPS,
    "lr_warmup_iters": WARMUP,
    "weight_decay": DECAY,
    "adam_beta1": BETAS[0],
    "adam_beta2": BETAS[1],
    "adam_eps": EPSILON,
    "clip_grad": CLIP,
    "bf16": False,
    "seed": SEED,
}
"""Portable parameters only; warm-up, decay, weight decay, clipping, document masks and evaluation all act."""


def write_documents(folder: Path) -> dict[str, Any]:
    """A finished data preparation of documents of 2 to 60 tokens, in which a token says much about the next one."""
    draw = random.Random(5)
    follows = [[draw.randrange(END) for _ in range(3)] for _ in range(END)]
    documents = []
    for _ in range(400):
        tokens = [draw.randrange(END)]
        for _ in range(draw.randrange(60)):
            tokens.append(draw.randrange(END) if draw.random() < 0.1 else draw.choice(follows[tokens[-1]]))
        documents.append([*tokens, END])
    prefix = write_tokens(folder / "documents", documents)
    tokens_in_all = sum(map(len, documents))
    file = {"prefix": str(prefix), "weight": None, "documents": len(documents), "tokens": tokens_in_all}
    tokenizer = {"type": "HuggingFaceTokenizer", "model": None, "vocab_size": WORDS, "eod": END}
    return {"train": [file], "valid": [], "test": [], "tokenizer": tokenizer}


def write_weights(folder: Path, rows: int = ROWS) -> Path:
    """Weights unlike any initialization: norms differ from 1 and matrices are large, so that a wrong layout shows.

    Args:
        rows: of the embedding and the output; the first of the same ones.
    """
    import numpy as np
    from safetensors.numpy import save_file

    draw = np.random.default_rng(7)
    tensors = {}
    for name, shape in _shapes().items():
        scale = 0.2 if len(shape) == 1 else 0.5 if "embed" in name else shape[1] ** -0.5
        tensor = (draw.standard_normal(shape) * scale + (len(shape) == 1)).astype(np.float32)
        tensors[name] = tensor[:rows] if shape[0] == ROWS else tensor
    folder.mkdir()
    save_file(tensors, folder / FILE, metadata={"format": "pt"})
    index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, FILE)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(_hugging_face(rows)))
    return folder


def _hugging_face(rows: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": rows,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": GROUPS,
        "head_dim": HEAD,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": LENGTH,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
    }


def _shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (ROWS, HIDDEN),
        "model.norm.weight": (HIDDEN,),
        "lm_head.weight": (ROWS, HIDDEN),
    }
    layer: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj.weight": (HEADS * HEAD, HIDDEN),
        "self_attn.k_proj.weight": (GROUPS * HEAD, HIDDEN),
        "self_attn.v_proj.weight": (GROUPS * HEAD, HIDDEN),
        "self_attn.o_proj.weight": (HIDDEN, HEADS * HEAD),
        "mlp.gate_proj.weight": (INNER, HIDDEN),
        "mlp.up_proj.weight": (INNER, HIDDEN),
        "mlp.down_proj.weight": (HIDDEN, INNER),
        "input_layernorm.weight": (HIDDEN,),
        "post_attention_layernorm.weight": (HIDDEN,),
    }
    for number in range(LAYERS):
        shapes |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    return shapes


def megatron(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Train with Megatron from the weights of the folder that was prepared."""
    from megatron.training import argument_utils

    from primus_backend_megatron.rank.train import run

    folder = str(rank.prepared("weights")["folder"])
    make_config = argument_utils.gpt_config_from_args

    def with_weights(args: Any) -> Any:
        config = make_config(args)
        config.pre_wrap_hooks.append(lambda models: [_filled(model, folder) for model in models])
        return config

    argument_utils.gpt_config_from_args = with_weights
    return run(plan, rank)


def _filled(model: Any, folder: str) -> Any:
    """A pipeline stage of Megatron's with this rank's part of the weights in it."""
    import torch
    from safetensors.torch import load_file

    tensors = load_file(f"{folder}/{FILE}")
    offset = next((layer.layer_number - 1 for layer in model.decoder.layers), 0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(_part(name, tensors, offset))
    return model


def _part(name: str, tensors: Mapping[str, Any], offset: int) -> Any:
    """What Megatron keeps under a name: some of Hugging Face's tensors together, divided among ranks."""
    import torch

    whole = {
        "embedding.word_embeddings.weight": "model.embed_tokens.weight",
        "decoder.final_layernorm.weight": "model.norm.weight",
        "output_layer.weight": "lm_head.weight",
    }
    if name in whole:
        tensor = tensors[whole[name]]
        return tensor if tensor.ndim == 1 else _rows(tensor)
    _, _, number, part = name.split(".", 3)

    def theirs(key: str) -> Any:
        return tensors[f"model.layers.{int(number) + offset}.{key}.weight"]

    if part == "self_attention.linear_qkv.weight":
        heads = [theirs(f"self_attn.{key}_proj").view(GROUPS, -1, HIDDEN) for key in "qkv"]
        return _rows(torch.cat(heads, 1).reshape(-1, HIDDEN))
    if part == "mlp.linear_fc1.weight":
        return torch.cat([_rows(theirs("mlp.gate_proj")), _rows(theirs("mlp.up_proj"))])
    divided = {"self_attention.linear_proj.weight": "self_attn.o_proj", "mlp.linear_fc2.weight": "mlp.down_proj"}
    norms = {"input_layernorm.weight": "input_layernorm", "pre_mlp_layernorm.weight": "post_attention_layernorm"}
    return _share(theirs(divided[part]), 1) if part in divided else theirs(norms[part])


def _rows(tensor: Any) -> Any:
    return _share(tensor, 0)


def _share(tensor: Any, dimension: int) -> Any:
    from megatron.core import parallel_state

    ranks = parallel_state.get_tensor_model_parallel_world_size()
    return tensor.chunk(ranks, dimension)[parallel_state.get_tensor_model_parallel_rank()]


def several(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Train with TorchTitan once for each of the changes to its own parameters that were prepared; null removes one.

    Returns:
        The rows of metrics of each.
    """
    from primus_backend_torchtitan.rank.train import run

    assert plan.translation
    found = {}
    for number, (name, changes) in enumerate(rank.prepared("changes").items()):
        native = {**plan.translation.native, "dump_folder": f"{plan.run_dir}/{number}", **changes}
        native = {key: value for key, value in native.items() if value is not None}
        recorder = Recorder(rank)
        run(evolve(plan, translation=evolve(plan.translation, native=native)), recorder)
        found[name] = recorder.rows
    return found


class Recorder:
    """A rank's context that keeps the rows of metrics, and hides what else a run tells."""

    def __init__(self, rank: RankContext) -> None:
        self.rank, self.local_rank, self.world_size, self.env = rank.rank, rank.local_rank, rank.world_size, rank.env
        self.prepared = rank.prepared
        self.rows: list[Mapping[str, object]] = []

    def metrics(self, row: Mapping[str, object]) -> None:
        self.rows.append(row)

    def phase(self, name: str) -> None: ...

    def progress(self, what: str, done: int, total: int | None, unit: str) -> None: ...

    def log(self, level: str, event: str, **values: object) -> None: ...

    def notice(self, topic: str, text: str) -> None: ...

    def should_stop(self, iteration: int, store: object) -> bool:
        return False


def transformers(plan: RunPlan, rank: RankContext) -> Mapping[str, object]:
    """Train with nothing but PyTorch and transformers' Llama; returns the rows of all steps."""
    import torch
    from transformers import LlamaForCausalLM

    folder, data = rank.prepared("weights")["folder"], rank.prepared("data")
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa").train()
    groups = [
        {"params": [part for part in model.parameters() if part.ndim > 1], "weight_decay": DECAY},
        {"params": [part for part in model.parameters() if part.ndim == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPSILON)
    rows = []
    for step, tokens in enumerate(_batches(data)):
        for group in optimizer.param_groups:
            group["lr"] = _learning_rate(step)
        loss = _step(model, torch.tensor(tokens))
        grad_norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP))
        optimizer.step()
        optimizer.zero_grad()
        rows.append({"loss": loss, "grad_norm": grad_norm, "lr": _learning_rate(step)})
    return {"rows": rows}


def _batches(data: Mapping[str, Any]) -> Iterator[list[list[int]]]:
    from primus_core.data.datasets import SampleMaker

    wanted = [STEPS * BATCH, 3 * BATCH, BATCH]
    samples = SampleMaker(sequence_length=LENGTH, seed=SEED).prepared(data, wanted, SPLIT)["train"]
    assert samples is not None
    for step in range(STEPS):
        yield [samples[step * BATCH + row].tokens.tolist() for row in range(BATCH)]


def _learning_rate(done: int) -> float:
    if done <= WARMUP:
        return LR * done / WARMUP
    return MIN_LR + (LR - MIN_LR) * 0.5 * (1 + math.cos(math.pi * (done - WARMUP) / (STEPS - WARMUP)))


def _step(model: Any, tokens: Any) -> float:
    """Gradients of the mean loss over the tokens of a batch that are to be predicted; returns the loss."""
    import torch

    inputs, labels = tokens[:, :-1], tokens[:, 1:]
    document = torch.nn.functional.pad((inputs[:, :-1] == END).cumsum(1), (1, 0))
    allowed = (document[:, :, None] == document[:, None, :]) & torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    positions = (torch.ones(LENGTH, LENGTH).tril() * (document[:, :, None] == document[:, None, :])).sum(2).long() - 1
    logits = model(input_ids=inputs, position_ids=positions, attention_mask=allowed[:, None]).logits
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    loss = losses[(inputs != END).flatten()].mean()
    loss.backward()
    return float(loss)


def megatron_rates(plan: RunPlan, rank: RankContext) -> list[list[float]]:
    """The learning rates that Megatron's scheduler gives to the first steps, for each of the prepared cases."""
    from types import SimpleNamespace

    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

    found = []
    for case in rank.prepared("cases")["cases"]:
        group: dict[str, Any] = {"lr": 0.0, "max_lr": case["highest"], "min_lr": case["lowest"]}
        scheduler = OptimizerParamScheduler(
            SimpleNamespace(param_groups=[group]),
            init_lr=0.0,
            max_lr=case["highest"],
            min_lr=case["lowest"],
            lr_warmup_steps=case["warmup"],
            lr_decay_steps=case["length"],
            lr_decay_style=case["style"],
            start_wd=0.0,
            end_wd=0.0,
            wd_incr_steps=0,
            wd_incr_style="constant",
        )
        rates = []
        for _ in range(case["length"] + 3):
            rates.append(float(group["lr"]))
            scheduler.step(increment=1)
        found.append(rates)
    return found


def our_rates(plan: RunPlan, rank: RankContext) -> list[list[float]]:
    """The same by the formula that TorchTitan is given."""
    from primus_backend_torchtitan.rank.schedule import Curve

    cases = rank.prepared("cases")["cases"]
    return [[Curve(**case).rate(done) for done in range(case["length"] + 3)] for case in cases]
