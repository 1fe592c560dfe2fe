"""The matrix products of a transformer: which ones its layers consist of, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from attrs import asdict

from primus_core.experiment import Value
from primus_core.records import frozen

Phase = Literal["", "forward", "input gradient", "weight gradient"]


@frozen(kw_only=True)
class Product:
    """One product ``C[m, n] = A[m, k] B[k, n]``."""

    operation: str = "gemm"
    phase: Phase = ""
    m: int
    n: int
    k: int
    trans_a: bool = False
    """A is stored as ``[k, m]``."""
    trans_b: bool = False
    """B is stored as ``[n, k]``."""

    @property
    def flops(self) -> float:
        """A multiplication and an addition for each of ``m n k``."""
        return 2.0 * self.m * self.n * self.k

    @property
    def elements(self) -> int:
        """Of A and B, which are read, and of C, which is written."""
        return self.m * self.k + self.k * self.n + self.m * self.n

    def as_value(self) -> Value:
        """For a plan."""
        return asdict(self)

    @classmethod
    def of_value(cls, value: Mapping[str, Any]) -> Product:
        return cls(**value)


@frozen(kw_only=True)
class Dimensions:
    """What a model's products follow from. Numbers of features, tokens, heads and experts."""

    hidden: int
    ffn_hidden: int
    """Of a dense feed-forward layer; 0: every layer has experts."""
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    gated: bool = True
    """The feed-forward layers have a second matrix of the same size, whose product gates the first one's."""
    latent: bool = False
    """Keys and values are made from a latent vector (MLA)."""
    q_lora_rank: int = 0
    """Features of the latent query; 0: queries are made from the hidden state."""
    kv_lora_rank: int = 0
    qk_rope_head_dim: int = 0
    v_head_dim: int = 0
    experts: int = 0
    experts_per_token: int = 0
    moe_ffn_hidden: int = 0
    shared_ffn_hidden: int = 0
    """Of all shared experts together."""


@frozen
class _Linear:
    """A layer ``y = x W^T`` with W of ``[outputs, inputs]``, for so many tokens."""

    operation: str
    tokens: int
    inputs: int
    outputs: int


def products_of(model: Dimensions, tokens: int) -> tuple[Product, ...]:
    """Those of one layer of each kind and of the output layer, each forward and for both gradients.

    Attention's own products of queries, keys and values are not among them: kernels fuse them, and
    ``benchmark attention`` measures those.

    Args:
        tokens: of one micro batch, micro batch size times sequence length.
    """
    return tuple(product for linear in _linears(model, tokens) for product in _of_linear(linear))


def _of_linear(one: _Linear) -> Iterator[Product]:
    tokens, inputs, outputs = one.tokens, one.inputs, one.outputs
    yield Product(operation=one.operation, phase="forward", m=tokens, n=outputs, k=inputs, trans_b=True)
    yield Product(operation=one.operation, phase="input gradient", m=tokens, n=inputs, k=outputs)
    yield Product(operation=one.operation, phase="weight gradient", m=outputs, n=inputs, k=tokens, trans_a=True)


def _linears(model: Dimensions, tokens: int) -> Iterator[_Linear]:
    yield from _latent_attention(model, tokens) if model.latent else _attention(model, tokens)
    if model.ffn_hidden:
        yield from _feed_forward(model, "mlp", tokens, model.ffn_hidden)
    if model.experts:
        yield _Linear("router", tokens, model.hidden, model.experts)
        each = max(1, tokens * model.experts_per_token // model.experts)
        yield from _feed_forward(model, "expert", each, model.moe_ffn_hidden)
    if model.shared_ffn_hidden:
        yield from _feed_forward(model, "shared expert", tokens, model.shared_ffn_hidden)
    yield _Linear("output layer", tokens, model.hidden, model.vocabulary)


def _attention(model: Dimensions, tokens: int) -> Iterator[_Linear]:
    yield _Linear("attention qkv", tokens, model.hidden, (model.heads + 2 * model.kv_heads) * model.head_dim)
    yield _Linear("attention output", tokens, model.heads * model.head_dim, model.hidden)


def _latent_attention(model: Dimensions, tokens: int) -> Iterator[_Linear]:
    """The layers of DeepSeek-V2 (arXiv:2405.04434, section 2.1)."""
    queries = model.heads * (model.head_dim + model.qk_rope_head_dim)
    if model.q_lora_rank:
        yield _Linear("attention q down", tokens, model.hidden, model.q_lora_rank)
    yield _Linear("attention q up", tokens, model.q_lora_rank or model.hidden, queries)
    yield _Linear("attention kv down", tokens, model.hidden, model.kv_lora_rank + model.qk_rope_head_dim)
    keys_and_values = model.heads * (model.head_dim + model.v_head_dim)
    yield _Linear("attention kv up", tokens, model.kv_lora_rank, keys_and_values)
    yield _Linear("attention output", tokens, model.heads * model.v_head_dim, model.hidden)


def _feed_forward(model: Dimensions, name: str, tokens: int, ffn_hidden: int) -> Iterator[_Linear]:
    up = f"{name} gate and up" if model.gated else f"{name} up"
    yield _Linear(up, tokens, model.hidden, ffn_hidden * (1 + model.gated))
    yield _Linear(f"{name} down", tokens, ffn_hidden, model.hidden)
