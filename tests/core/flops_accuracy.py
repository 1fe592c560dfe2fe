"""Floating-point operations a token, projected and as published results imply them; a row a line, as JSON.

Rates are published with three or four digits, which alone may be half a percent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from attrs import evolve

from primus_backend_megatron.host.shape import shape_of_plan
from primus_core import discovery
from primus_core.pipeline import Scope, judge
from primus_core.planning.accelerators import Found
from primus_core.planning.job import Request
from primus_core.projection.flops import flops_of
from primus_core.resolve import resolve
from primus_core.shape import Block

PUBLISHED = Path(__file__).parents[3] / "shared/reference/published-throughput.json"
ALLOWED = 0.5
"""Percent."""
MODELS = {
    "llama3-8b": "llama3_8B",
    "llama3-70b": "llama3_70B",
    "llama3.1-70b": "llama3.1_70B",
    "llama3.1-405b": "llama3.1_405B",
    "qwen3-30b-a3b": "qwen3_30B_A3B",
    "qwen3-235b-a22b": "qwen3_235B_A22B",
    "deepseek-v3": "deepseek_v3",
    "deepseek-v3-noMTP": "deepseek_v3",
    "kimi-k2": "kimi_k2",
    "gpt-oss-20b": "gpt_oss_20B",
    "gpt-oss-120b": "gpt_oss_120B",
}
"""Published names, and the presets of them."""
UNGATED = "two of an expert's three products seem to be counted, as of an MLP without a gate"
UNTOLD = "states no convention; half of causal attention taken"
REASONS = {
    ("gpt-oss-20b", "pytorch-fsdp2"): "states no convention; not explained",
    ("gpt-oss-120b", "pytorch-fsdp2"): "states no convention; not explained",
    ("gpt-oss-120b", "megatron"): UNGATED,
    ("llama3.1-70b", "megatron"): "a threshold of a test: both figures are round",
    ("llama-1b", "nanotron"): "of a model that is not described there, and no convention is stated",
}
"""Why rows differ, by model and framework; nothing is fitted to them."""
BOUND = ("llama3-8b", "llama3-70b", "llama3.1-405b", "qwen3-30b-a3b", "qwen3-235b-a22b", "deepseek-v3")
"""Models whose rows must agree that state their convention: Megatron's, which leaves out the choice of experts."""
_ROUTER = "mlp.router"
EXPERIMENT = """\
work_group: team
user_name: me
exp_name: test
workspace: out
modules:
  pre_trainer: {framework: megatron, config: pre_trainer.yaml, model: MODEL.yaml, overrides: {mock_data: true, MORE}}
"""


def rows() -> list[Mapping[str, Any]]:
    """Published results that have tokens a second and operations a second; none where the file is not at hand."""
    if not PUBLISHED.is_file():
        return []
    found = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    return [row for row in found if row.get("tokens_per_s_gpu") and row.get("tflops_gpu")]


def implied(row: Mapping[str, Any]) -> float:
    """Operations a token that a result means."""
    return float(row["tflops_gpu"]) * 1e12 / float(row["tokens_per_s_gpu"])


def is_bound(row: Mapping[str, Any]) -> bool:
    """Its model and its convention are known."""
    return row["model"].removesuffix("-noMTP") in BOUND and bool(row.get("flops_convention"))


@cache
def projected(model: str, sequence: int, prediction: bool, router: bool) -> float:
    """Operations a token of a preset on Megatron, of causal attention the half."""
    more = f"seq_length: {sequence}, max_position_embeddings: {sequence}"
    more += "" if prediction else ", mtp_num_layers: null"
    text = EXPERIMENT.replace("MODEL", model).replace("MORE", more)
    plan = _plan(text)
    shape = shape_of_plan(plan) if plan else None
    if shape is None:
        raise ValueError(f"{model} has no plan")
    counted = shape if router else evolve(shape, blocks={name: _unrouted(each) for name, each in shape.blocks.items()})
    return flops_of(counted).model


def _unrouted(block: Block) -> Block:
    """Without the products that choose experts."""
    kept = (each if not each.name.endswith(_ROUTER) else evolve(each, flops=0) for each in block.operators)
    return evolve(block, operators=tuple(kept))


def _plan(text: str) -> Any:
    from tempfile import TemporaryDirectory

    plugins = discovery.scan()
    with TemporaryDirectory() as folder:
        (Path(folder) / "exp.yaml").write_text(text)
        found = resolve(
            "exp.yaml", env={}, preset_dirs=lambda framework: discovery.preset_dirs(plugins, framework), cwd=folder
        )
        request = Request(launcher="single", run_id="test", ranks_per_node=8, cwd=folder)
        scope = Scope(request=request, found=Found(kind="rocm", count=8), launcher=False, preflight=False, files=False)
        return judge(found, plugins, scope).plan


def of_row(row: Mapping[str, Any]) -> float | None:
    """Projected for a published result; None for a model without a preset."""
    if row["model"] not in MODELS:
        return None
    prediction = row["model"] == "deepseek-v3" and bool(row.get("flops_convention"))
    return projected(MODELS[row["model"]], int(row["seq"]), prediction, router=not row.get("flops_convention"))


def lines() -> Iterator[dict[str, Any]]:
    """All rows, each with its reason where it differs."""
    for row in rows():
        found = of_row(row)
        told = {"model": row["model"], "layout": f"{row['group']}, {row['gpu']}, sequence {row['seq']}"}
        note = "" if is_bound(row) else REASONS.get((row["model"], row["framework"]), UNTOLD)
        yield {**told, "projected": found, "measured": implied(row), **({"note": note} if note else {})}


if __name__ == "__main__":
    for line in lines():
        print(json.dumps(line), flush=True)
