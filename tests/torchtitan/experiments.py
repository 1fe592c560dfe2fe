"""Experiments for the TorchTitan back end, made without files, and their plans."""

from __future__ import annotations

from primus_backend_torchtitan import host
from primus_core.experiment import Value
from tests.experiments import Host

VERSION = "0.3.0"

HOST = Host(module=host, framework="torchtitan", version=VERSION)
module_of = HOST.module_of
target_of = HOST.target_of
translate = HOST.translate
plan_of = HOST.plan_of
findings = HOST.findings

MOCK: dict[str, Value] = {
    "num_layers": 2,
    "hidden_size": 64,
    "ffn_hidden_size": 128,
    "num_attention_heads": 4,
    "num_query_groups": 2,
    "group_query_attention": True,
    "swiglu": True,
    "normalization": "RMSNorm",
    "position_embedding_type": "rope",
    "add_bias_linear": False,
    "untie_embeddings_and_output_weights": True,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "seq_length": 32,
    "max_position_embeddings": 32,
    "vocab_size": 250,
    "micro_batch_size": 2,
    "global_batch_size": 8,
    "train_iters": 6,
    "lr": 1e-2,
    "min_lr": 1e-3,
    "lr_decay_style": "cosine",
    "mock_data": True,
    "seed": 1234,
}
"""A Llama of a few thousand parameters on made-up tokens, by portable names."""
