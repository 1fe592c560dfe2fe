"""Experiments for the Megatron back end, made without files, and their plans."""

from __future__ import annotations

from primus_backend_megatron import host
from primus_core.experiment import Value
from tests.experiments import Host

VERSION = "0.19.2"

HOST = Host(module=host, framework="megatron", version=VERSION)
module_of = HOST.module_of
target_of = HOST.target_of
translate = HOST.translate
plan_of = HOST.plan_of
findings = HOST.findings

TINY: dict[str, Value] = {
    "num_layers": 4,
    "hidden_size": 128,
    "num_attention_heads": 8,
    "seq_length": 128,
    "vocab_size": 1000,
    "micro_batch_size": 2,
    "train_iters": 20,
    "lr": 1e-3,
    "train_data_path": "text/*.txt",
    "tokenizer_type": "HuggingFaceTokenizer",
    "tokenizer_model": "tokenizer.json",
}
"""The least that trains on data."""

MOCK: dict[str, Value] = {
    **{name: TINY[name] for name in TINY if name not in ("train_data_path", "tokenizer_type", "tokenizer_model")},
    "mock_data": True,
}
"""The least that trains at all."""
